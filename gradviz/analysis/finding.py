"""One thing that is wrong with a recorded run, as data: facts and places, no colours and no layout."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gradviz.graph.model import Attribute, CallSite

Severity = Literal["error", "warning", "note"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""From the gravest on: the program cannot do what it is for; it does something else than was meant; worth knowing."""

Symptom = Literal[
    "grad_none", "grad_zero", "grad_nan", "grad_inf", "grad_wrong", "raises", "memory_leak", "vanishing", "exploding",
    "none",
]  # fmt: skip
"""What the reader notices; ``none`` where nobody would notice anything yet."""


class Location(Struct, frozen=True, order=True):
    """A line of source."""

    file: str
    line: int


def location_of_line(line: CallSite | None) -> Location | None:
    """The line of a call site; None where there is none."""
    return None if line is None else Location(line.file, line.line)


SourceText = dict[str, dict[int, str]]
"""Lines of source by file and line."""


def text_at(source: SourceText, location: Location | None) -> str:
    """The text of a line; empty where it is not known."""
    return "" if location is None else source.get(location.file, {}).get(location.line, "")


class NodeAt(Struct, frozen=True):
    """A node of one of the capture's graphs."""

    graph: int
    node: int


class DeadInput(Struct, frozen=True):
    """A node that took, in the place of something with a gradient, what a cut gave."""

    at: NodeAt
    constant: int | None = None
    """Index in the graph's `constants` of what it took, where that can be told."""
    scope: int | None = None
    """Index in the graph's `scopes` of the module call in which the cut ran."""
    tensors: tuple[str, ...] = ()
    """Where a line cuts several times, what gets no gradient because of this cut; else all of the finding."""


class CutRoot(Struct, frozen=True):
    """A tensor that backward was called on in vain, as a cut left it without a gradient."""

    graph: int
    refused: int
    """Index in the graph's `refused`."""
    sources: tuple[int, ...] = ()
    """Nodes whose results were cut, where the graph has them."""
    way: tuple[str, ...] = ()
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
    """The verdict in one sentence, with the names and the figures that matter."""
    why: str = ""
    """How the cause brings the symptom about."""
    fix: str = ""
    """What to do."""
    changed_line: str | None = None
    """The line at `place` as it should read, where that is certain."""
    location: Location | None = None
    """The line of the cause."""
    symptom_location: Location | None = None
    """Where it shows, if that is another line."""
    op: str | None = None
    """Name of the node that it is about, as ``grad_fn.name()`` gives it."""
    tensors: tuple[str, ...] = ()
    """Full names of the tensors concerned."""
    nodes: tuple[NodeAt, ...] = ()
    """Nodes that renderers mark."""
    cut: CutSeen | None = None
    """Where the gradient would have gone on; its nodes are not marked, but joined to the cut by ghost edges."""
    path: tuple[str, ...] = ()
    """The way through the graph that shows it, a few words for each station."""
    evidence: dict[str, Attribute] = {}
    """Values, versions, counts: what the verdict rests on."""

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            raise ValueError(f"{self.code}: {self.severity!r} is no severity")

    @property
    def is_alarm(self) -> bool:
        """False for what is only worth knowing."""
        return self.severity != "note"

    @property
    def in_sentences(self) -> str:
        """Verdict, reason and remedy on one line."""
        return ". ".join(part for part in (self.message, self.why, self.fix) if part)


def is_at_least(severity: Severity, threshold: Severity) -> bool:
    """Whether the first is as grave as the second, or graver."""
    return SEVERITIES.index(severity) <= SEVERITIES.index(threshold)
