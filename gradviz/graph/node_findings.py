"""What a check found, as it stands on the nodes of a graph: see `gradviz.analysis.marked_findings`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class NodeFinding(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """What a check found about a node: see `gradviz.analysis.finding`."""

    node: int
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


class GhostEdge(Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """An edge that is not there: a gradient would have gone on from a node, had a call not cut the way.

    Only for cuts that cost a tensor the gradient that it wants.
    """

    finding: NodeFinding
    """On the node that took what the cut gave."""
    cut: str
    """The call that cuts, as the program writes it: ``detach``."""
    tensors: tuple[str, ...] = ()
    """What gets no gradient because of it, by full names."""
    file: str = ""
    line: int = 0
    """Where it cuts; 0 where that is not known."""
    constant: int | None = None
    """Index in `Graph.constants` of what the node took from there, where that can be told."""
    scope: int | None = None
    """Index in `Graph.scopes` of the module call in which the cut ran."""

    @property
    def origin(self) -> tuple[str, str, int]:
        """The same for edges that end at the same cut."""
        return self.cut, self.file, self.line
