"""What Dynamo, the tracer behind ``torch.compile``, compiled while a program ran, and where it could not go on."""

from __future__ import annotations

from msgspec import Struct

from gradviz.graph.bounded_types import Count, LineNumber


class GraphBreak(Struct, frozen=True, omit_defaults=True):
    """A place in the program at which a compiled region ends because Dynamo could not trace on."""

    reason: str
    """In Dynamo's words: usually one line, then an explanation and hints."""
    file: str = ""
    line: LineNumber = 0
    """0 if Dynamo noted none."""
    is_of_torch: bool = False
    """Whether it is inside torch itself, as in every compiled step of an optimizer."""
    leaves_rest: bool = False
    """Whether Dynamo compiles nothing of the function behind it; all of that runs uncompiled."""


class GradientCut(Struct, frozen=True, omit_defaults=True):
    """A torch call inside compiled code behind which no gradient goes back, and what gets none because of it."""

    function: str
    """``torch.Tensor.detach``; empty if nothing that the compiled code returns was computed from it."""
    parameters: tuple[str, ...]
    """Names of parameters from which no other way leads to what the compiled code returns."""
    file: str = ""
    line: LineNumber = 0
    is_grad_off: bool = False
    """Whether gradients were switched off there, as under ``no_grad``."""


class Compilation(Struct, frozen=True, omit_defaults=True):
    """One compilation of a function, or of the rest of a function behind a graph break."""

    frame: Count
    """Dynamo's number of the compiled code: the same for each of its versions."""
    version: Count
    """0 for the first; a later one was compiled because what the earlier ones assumed did not hold any more."""
    function: str
    file: str = ""
    line: LineNumber = 0
    """The first line of the function, or the line of the graph break behind which it goes on."""
    is_rest: bool = False
    """Whether it is the rest of a function behind a graph break."""
    operations: Count = 0
    """Torch calls in the traced graph."""
    backend: str = ""
    broken: GraphBreak | None = None
    """Where it ends before the function does."""
    cuts: tuple[GradientCut, ...] = ()
    """Where gradients are cut off inside it, if it has gradients at all and was used in a recorded backward."""
    failed_guard: str = ""
    """What an earlier version had assumed, and did not hold; empty for the first one, or if torch does not tell."""
    is_refused: bool = False
    """Whether nothing was compiled: the function, or the rest of it, runs uncompiled. `broken` says why; if it is None,
    there were too many versions."""
    is_dynamic: bool = False
    """Whether sizes were taken for changing from the beginning: ``dynamic=True``."""
