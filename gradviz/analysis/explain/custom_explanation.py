"""The explanation of a function of the program: its source, and whether its backward is right."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.custom_functions import differing_slopes, is_flat
from gradviz.capture.capture import Capture
from gradviz.graph.call_log import DerivativeCheck
from gradviz.graph.model import CustomFunction, Graph, Node


class SourceLine(Struct, frozen=True):
    """One line of the program."""

    number: int
    text: str


class CheckedInput(Struct, frozen=True, omit_defaults=True):
    """The comparison of one argument's gradient with finite differences."""

    argument: int
    """Index among the arguments of forward, from 0."""
    compared: int
    """The number of elements."""
    verdict: str
    """``agrees``, ``differs``, ``another on purpose`` or ``nothing to compare``."""
    given: float | None = None
    """The result of backward where the difference is largest, if they differ."""
    measured: float | None = None
    """The slope of forward there."""


class CustomExplanation(Struct, frozen=True, omit_defaults=True):
    """One custom ``autograd.Function``."""

    class_name: str
    file: str
    lines: tuple[SourceLine, ...]
    """From its ``class`` line on; empty if the recording has none of them."""
    wants_gradient: tuple[bool, ...] = ()
    """For each tensor argument of forward."""
    checks: tuple[CheckedInput, ...] = ()
    """If the script ran with ``--gradcheck``, or was checked."""
    unchecked: tuple[str, ...] = ()
    """Why there are no checks although they were requested."""
    was_asked_for: bool = False
    """Whether the run was one that makes these checks."""


def custom_explanation(capture: Capture, graph: Graph, node: Node) -> CustomExplanation | None:
    """The explanation of a custom function's node; None for all other nodes."""
    if node.kind != "custom":
        return None
    found = next((each for each in graph.custom_functions if each.node_name == node.name), None)
    class_name = found.class_name if found is not None else node.name.removesuffix("Backward")
    own_name = class_name.rpartition(".")[2]
    checks = capture.calls.derivatives if capture.calls is not None else ()
    return CustomExplanation(
        class_name,
        found.file if found is not None else "",
        tuple(_lines(capture, found)) if found is not None else (),
        tuple(edge is not None for edge in node.edges),
        tuple(_checked(each) for each in checks if each.function.rpartition(".")[2] == own_name),
        tuple(each for each in capture.disclosures if f" of {own_name} was not compared" in each),
        was_asked_for=capture.calls is not None,
    )


def _lines(capture: Capture, function: CustomFunction) -> Iterator[SourceLine]:
    known = capture.sources.get(function.file, {})
    for number in range(function.first_line, function.last_line + 1):
        if number in known:
            yield SourceLine(number, known[number])


def _checked(check: DerivativeCheck) -> CheckedInput:
    compared = len(check.given)
    if check.is_identity or is_flat(check):
        return CheckedInput(check.argument, compared, "another on purpose")
    wrong = differing_slopes(check)
    if wrong:
        given, measured = max(wrong, key=lambda pair: abs(pair[0] - pair[1]))
        return CheckedInput(check.argument, compared, "differs", given, measured)
    return CheckedInput(check.argument, compared, "agrees" if compared else "nothing to compare")
