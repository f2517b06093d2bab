"""Findings of a check, attached to nodes of a graph: see `gradviz.analysis.check.marked_findings`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gradviz.graph.bounded_types import Index, LineNumber


class Verdict(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """A finding in short: see `gradviz.analysis.finding`."""

    code: str
    cause: str
    severity: Literal["error", "warning", "note"]
    message: str = ""
    why: str = ""
    """How the cause leads to the symptom."""
    fix: str = ""
    """What to do."""

    @property
    def is_alarm(self) -> bool:
        """False for what is only worth knowing."""
        return self.severity != "note"


class NodeFinding(Verdict, frozen=True, kw_only=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """A finding about a node."""

    node: Index


class CutEdge(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True, rename={"path": "way"}):
    """An edge that is missing: a gradient would have gone on from `node` or `refused`, if a call had not cut it off.

    Only for cuts that cost a tensor the gradient that it needs.
    """

    finding: Verdict
    cut: str
    """The call that cuts, as the program writes it: ``detach``."""
    tensors: tuple[str, ...] = ()
    """The tensors that get no gradient because of it, by full names; without those that the graph shows behind
    `sources`."""
    file: str = ""
    line: LineNumber = 0
    """Where it cuts; 0 where unknown."""
    node: Index | None = None
    """The node that took the result of the cut."""
    refused: Index | None = None
    """Or the index in `Graph.refused` of a tensor that was computed from that result without any gradient."""
    sources: tuple[Index, ...] = ()
    """Nodes whose results were cut off, if the graph has them: only for a backward call that was refused."""
    path: tuple[str, ...] = ()
    """To a refused root: the calls that computed it from the result of the cut, as the program writes them."""
    constant: Index | None = None
    """Index in `Graph.constants` of what the node took from the cut, if known."""
    scope: Index | None = None
    """Index in `Graph.scopes` of the module call in which the cut ran."""

    @property
    def origin(self) -> tuple[str, str, int]:
        """Equal for edges that end at the same cut."""
        return self.cut, self.file, self.line

    @property
    def nodes(self) -> tuple[int, ...]:
        """Nodes of the graph at both of its ends."""
        return self.sources if self.node is None else (self.node, *self.sources)
