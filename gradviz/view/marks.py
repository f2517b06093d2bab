"""Marks on nodes of a graph that is drawn for two runs: which of the runs has the node, and whether it changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

NodeState = Literal["only_a", "only_b", "changed"]


@dataclass(frozen=True, slots=True)
class Mark:
    """What differs at one node."""

    state: NodeState
    sentence: str = ""
    is_first: bool = False
    """Whether the runs begin to differ here."""
    is_detail: bool = False
    """Whether it is a view or copy of an operation that has a mark itself; it may be drawn with the next operation."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of a graph; a node without one is the same in both runs."""

    of_nodes: Mapping[int, Mark]
    shown: frozenset[int]
    """The marked nodes whose boxes are open."""

    def state_of(self, node: int) -> NodeState | None:
        """None for a node that both runs have, unchanged."""
        mark = self.of_nodes.get(node)
        return None if mark is None else mark.state

    def key_of(self, node: int) -> tuple[str, bool] | None:
        """Equal for nodes that may be drawn as one."""
        mark = self.of_nodes.get(node)
        return None if mark is None else (mark.state, mark.is_first)
