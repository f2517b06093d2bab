"""What differs between two runs, as data."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Cause = Literal[
    "random", "arguments", "operation", "input", "wiring", "only_a", "only_b", "values", "rounding", "backward"
]
"""Why a result differs. ``random``: other random numbers were drawn; ``arguments``, ``operation``: it was called with
other arguments, or another operation has its position; ``input``: a parameter or data has other values; ``wiring``: it
takes the result of another operation; ``only_a``, ``only_b``: what it takes went through an operation that the other
run does not have; ``values``: same operation, same inputs, another result; ``rounding``: the same within the tolerance,
growing beyond it later; ``backward``: as ``values``, in backward."""


class Where(Struct, frozen=True, omit_defaults=True):
    """An operation in one of the runs."""

    operation: str
    index: int | None
    """Its index among the operations of the run; None for what is no operation, such as a finding or an error."""
    file: str | None = None
    line: int | None = None
    source: str = ""
    """The text of that line."""
    module: str = ""
    operands: tuple[str, ...] = ()
    node: int | None = None
    """Id of its last node in the graph, if it made one."""
    takes_from: str = ""
    """The line that computed the operand that the other run takes from elsewhere, with its text."""


class Origin(Struct, frozen=True, omit_defaults=True):
    """An operation at which the runs begin to differ."""

    cause: Cause
    what: str
    """A sentence."""
    a: Where | None = None
    b: Where | None = None
    distance: float | None = None
    """How far apart the results are, relative to their norm; None if unknown, infinite for other shapes."""
    reason: str | None = None
    """Why two results of the same operation on the same inputs can differ, if that is known."""
    repetitions: int = 0
    """How many later operations at the same lines differ in the same way."""


class GrowthPoint(Struct, frozen=True, omit_defaults=True):
    """How far apart the results of one pair of operations are."""

    depth: int
    """Index of the operation in the first run."""
    operation: str
    line: str | None
    distance: float
    is_beyond: bool = False
    """Whether it is larger than the tolerance."""


ChangeKind = Literal[
    "only_a",
    "only_b",
    "replaced",
    "arguments",
    "shape",
    "dtype",
    "device",
    "autocast",
    "grad_mode",
    "parameter",
    "reached",
    "frozen",
    "hooks",
    "moved",
    "renamed",
    "file",
    "wrapped",
    "compiled",
    "form",
    "finding",
    "backward",
]
"""``reached``: a parameter that gets a gradient in one run only; ``form``: an operation that keeps the values and the
gradient as they are, as `contiguous` does."""
_OF_NAMES_AND_ORDER = frozenset({"moved", "renamed", "file", "wrapped", "compiled", "form"})


class Change(Struct, frozen=True, omit_defaults=True):
    """One difference in structure."""

    kind: ChangeKind
    what: str
    a: Where | None = None
    b: Where | None = None
    count: int = 1

    @property
    def is_cosmetic(self) -> bool:
        """True for names, order, and operations that change no value."""
        return self.kind in _OF_NAMES_AND_ORDER


class Figure(Struct, frozen=True, omit_defaults=True):
    """One figure of both runs."""

    name: str
    a: float
    b: float
    unit: str = ""

    @property
    def ratio(self) -> float | None:
        """The second as a multiple of the first."""
        return self.b / self.a if self.a else None


class Difference(Struct, frozen=True, omit_defaults=True):
    """The answer of `gradviz diff`."""

    a: str
    b: str
    """Names of the two runs."""
    same: bool
    sentence: str
    first: Origin | None = None
    """Where the runs begin to differ."""
    rounding: Origin | None = None
    """Where they begin to differ within the tolerance, if that is before `first` or there is no other difference."""
    backward: Origin | None = None
    """The first node in backward order that sends other gradients although it got the same."""
    growth: tuple[GrowthPoint, ...] = ()
    changes: tuple[Change, ...] = ()
    figures: tuple[Figure, ...] = ()
    operations_a: int = 0
    operations_b: int = 0
    matched: int = 0
    differing: int = 0
    """Pairs of operations whose results differ."""
    backward_calls: int = 0
    """Pairs of backward calls whose gradients are compared."""
    disclosures: tuple[str, ...] = ()
    """What could not be compared."""
