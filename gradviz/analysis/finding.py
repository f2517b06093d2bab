"""One problem of a recorded run, as data: facts and locations, no colours and no layout."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gradviz.graph.model import Attribute, CallSite

Severity = Literal["error", "warning", "note"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""The most severe first: the program cannot do its work; it does something that is not meant; worth knowing."""

Symptom = Literal[
    "grad_none", "grad_zero", "grad_nan", "grad_inf", "grad_wrong", "raises", "memory_leak", "vanishing", "exploding",
    "none",
]  # fmt: skip
"""What the user notices; ``none`` if nobody would notice anything yet."""


class Location(Struct, frozen=True, order=True):
    """A line of source."""

    file: str
    line: int


def location_of_line(line: CallSite | None) -> Location | None:
    """The line of a call site; None if there is none."""
    return None if line is None else Location(line.file, line.line)


SourceText = dict[str, dict[int, str]]
"""Lines of source by file and line."""


def text_at(source: SourceText, location: Location | None) -> str:
    """The text of a line; empty if unknown."""
    return "" if location is None else source.get(location.file, {}).get(location.line, "")


class NodeAt(Struct, frozen=True):
    """A node of one of the capture's graphs."""

    graph: int
    node: int


class DeadInput(Struct, frozen=True):
    """A node that uses the result of a cut, instead of a tensor with a gradient."""

    at: NodeAt
    constant: int | None = None
    """Index in the graph's `constants` of that result, if known."""
    scope: int | None = None
    """Index in the graph's `scopes` of the module call in which the cut ran."""
    tensors: tuple[str, ...] = ()
    """If a line cuts several times, the tensors without a gradient because of this cut; else all of the finding."""


class CutRoot(Struct, frozen=True):
    """A tensor on which backward was refused, because a cut left it without a gradient."""

    graph: int
    refused: int
    """Index in the graph's `refused`."""
    sources: tuple[int, ...] = ()
    """Nodes whose results were cut, if the graph has them."""
    path: tuple[str, ...] = ()
    """The calls after the cut, as the program writes them."""
    scope: int | None = None
    """Index in the graph's `scopes` of the module call in which the cut ran."""


class CutSeen(Struct, frozen=True):
    """The cut that a finding is about, as pictures draw it."""

    call: str
    """As the program writes it: ``detach``."""
    inputs: tuple[DeadInput, ...] = ()
    root: CutRoot | None = None


class Finding(
    Struct,
    frozen=True,
    omit_defaults=True,
    kw_only=True,
    rename={"location": "place", "symptom_location": "symptom_place"},
):
    """What is wrong, why, and what to do: a verdict with its evidence."""

    code: str
    """Stable: ``GV101``."""
    cause: str
    """The rule's name: ``detached``."""
    severity: Severity
    symptom: Symptom = "none"
    message: str
    """The verdict in one sentence, with names and figures."""
    why: str = ""
    """How the cause leads to the symptom."""
    fix: str = ""
    """What to do."""
    changed_line: str | None = None
    """The line at `location`, corrected, if that is certain."""
    location: Location | None = None
    """The line of the cause."""
    symptom_location: Location | None = None
    """The line of the symptom, if it is another one."""
    op: str | None = None
    """``grad_fn.name()`` of the node that it belongs to."""
    tensors: tuple[str, ...] = ()
    """Full names of the tensors concerned."""
    nodes: tuple[NodeAt, ...] = ()
    """Nodes that renderers mark."""
    cut: CutSeen | None = None
    """The cut, if it is about one; its nodes are not marked, but joined to the cut by cut edges."""
    path: tuple[str, ...] = ()
    """The path through the graph, a few words for each call or node."""
    ranks: tuple[int, ...] = ()
    """In the report of a job: the ranks that have it."""
    evidence: dict[str, Attribute] = {}
    """Values, versions and counts that support the verdict."""

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            raise ValueError(f"{self.code}: {self.severity!r} is not a severity")

    @property
    def is_alarm(self) -> bool:
        """False for findings that are only worth knowing."""
        return self.severity != "note"

    @property
    def in_sentences(self) -> str:
        """Verdict, reason and remedy on one line."""
        return ". ".join(part for part in (self.message, self.why, self.fix) if part)


def is_at_least(severity: Severity, threshold: Severity) -> bool:
    """Whether the first is at least as severe as the second."""
    return SEVERITIES.index(severity) <= SEVERITIES.index(threshold)
