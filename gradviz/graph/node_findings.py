"""What a check found, as it stands on the nodes of a graph: see `gradviz.analysis.check.marked_findings`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Verdict(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """What a check found, in short: see `gradviz.analysis.finding`."""

    code: str
    cause: str
    severity: Literal["error", "warning", "note"]
    message: str = ""
    why: str = ""
    """How the cause brings the symptom about."""
    fix: str = ""
    """What to do."""

    @property
    def is_alarm(self) -> bool:
        """False for what is only worth knowing."""
        return self.severity != "note"


class NodeFinding(Verdict, frozen=True, kw_only=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """The same about a node."""

    node: int


class CutEdge(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True, rename={"path": "way"}):
    """An edge that is not there: a gradient would have gone on from `node` or `refused`, had a call not cut the way.

    Only for cuts that cost a tensor the gradient that it wants.
    """

    finding: Verdict
    cut: str
    """The call that cuts, as the program writes it: ``detach``."""
    tensors: tuple[str, ...] = ()
    """What gets no gradient because of it, by full names; without those that the graph has behind `sources`."""
    file: str = ""
    line: int = 0
    """Where it cuts; 0 where that is not known."""
    node: int | None = None
    """The node that took what the cut gave."""
    refused: int | None = None
    """Or index in `Graph.refused` of what was computed from that without any gradient."""
    sources: tuple[int, ...] = ()
    """Nodes whose results were cut off, where the graph has them: only of a backward call that was refused."""
    path: tuple[str, ...] = ()
    """To a refused root: the calls through which the values came there after the cut, as the program writes them."""
    constant: int | None = None
    """Index in `Graph.constants` of what the node took from there, where that can be told."""
    scope: int | None = None
    """Index in `Graph.scopes` of the module call in which the cut ran."""

    @property
    def origin(self) -> tuple[str, str, int]:
        """The same for edges that end at the same cut."""
        return self.cut, self.file, self.line

    @property
    def nodes(self) -> tuple[int, ...]:
        """Nodes of the graph at either of its ends."""
        return self.sources if self.node is None else (self.node, *self.sources)
