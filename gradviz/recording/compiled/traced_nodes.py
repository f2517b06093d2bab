"""Where a node of a traced graph belongs: its lines and its modules."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Protocol


class TracedNode(Protocol):
    """What is read of a `torch.fx.Node`."""

    meta: dict[str, Any]


@dataclass
class MovedNode:
    """A node of a graph that several nodes run, as one of them runs it."""

    meta: dict[str, Any]


def moved(node: TracedNode, around: TracedNode, times: int) -> TracedNode:
    """The node with the modules that `around` runs it for: torch keeps those of which it was traced first.

    Args:
        times: distinguishes this run from others.
    """
    own = list((node.meta.get("nn_module_stack") or {}).items())
    outer = list((around.meta.get("nn_module_stack") or {}).items())
    for mine, its in zip_longest(own[: len(outer)], outer):
        if mine is None or mine[1][1] != its[1][1]:
            return node  # not of the same classes
    if not outer:
        return node
    old, new = str(own[len(outer) - 1][1][0]), str(outer[-1][1][0])
    stack = dict(outer)
    for key, (text, kind) in own[len(outer) :]:
        text = new + str(text).removeprefix(old) if str(text).startswith(old) else str(text)
        stack[f"run {times} of {key}"] = text, kind
    return MovedNode({**node.meta, "nn_module_stack": stack})
