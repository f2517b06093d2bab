"""What one recorded run holds: its graphs, its parameters, its source lines, and what went wrong."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gradviz.graph.call_log import CallLog
from gradviz.graph.model import Graph, TensorFacts


class Program(Struct, frozen=True, omit_defaults=True):
    """What was run, and with which versions."""

    name: str
    """The script or module as the user named it; ``<python>`` for inline use."""
    arguments: tuple[str, ...] = ()
    python_version: str = ""
    torch_version: str = ""
    gradviz_version: str = ""


class Parameter(Struct, frozen=True, omit_defaults=True):
    """A parameter of a module that ran, whether or not the loss reaches it."""

    names: tuple[str, ...]
    tensor: TensorFacts
    requires_grad: bool = True


class ScriptError(Struct, frozen=True, omit_defaults=True):
    """How the user's program failed."""

    type_name: str
    message: str
    traceback: str
    """As Python would have printed it, without gradviz's frames."""
    call_site: tuple[str, int] | None = None
    """File and line of the innermost frame of the user's code."""
    in_backward: bool = False


class Capture(Struct, frozen=True, omit_defaults=True):
    """One recorded run. Rendering and analysis work from this alone."""

    program: Program
    graphs: tuple[Graph, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    sources: dict[str, dict[int, str]] = {}
    """Text of every source line that a call site refers to, by file and line."""
    error: ScriptError | None = None
    outcome: Literal["stopped", "finished", "failed", "interrupted"] = "finished"
    """``stopped``: ended by gradviz after the last wanted backward."""
    backward_calls: int = 0
    """How many the script made while it was recorded."""
    disclosures: tuple[str, ...] = ()
    """What could not be recorded, in plain sentences. Every renderer shows them."""
    calls: CallLog | None = None
    """Every torch call, where that was asked for: what diagnoses are made from."""
    missing: dict[str, str] = {}
    """What the torch that it was recorded with cannot do, by name, and what is not seen for it: rules that need that
    cannot look. Recordings made before this was noted say nothing here."""
