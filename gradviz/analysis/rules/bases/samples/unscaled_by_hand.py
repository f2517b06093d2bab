"""Scalers of mixed precision that a program writes itself: gradients that are divided by a scale before a step.

A scale is a power of two, and who divides by one looks for Inf and NaN before the step, or calls it a scale. Sums over
a batch, and gradients of several backward calls, are divided by numbers as well: by how many there are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import frexp, prod

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name, single_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, TensorUse


class Unscaled(Struct, frozen=True):
    """Gradients of one backward call that a program divides by a scale."""

    backward: int
    division: int
    scale: float
    is_scaled: bool
    """Whether the loss was multiplied by a scale, or by a number that may be one."""


_LEAST_SCALE = 16
_HALF = 0.5
_LOOKS = frozenset({"isfinite", "isinf", "isnan", "_amp_foreach_non_finite_check_and_unscale"})
_BOTH = 2


def unscaled_by_hand(case: Case) -> dict[int | None, list[Unscaled]]:
    """By line of the backward call: the gradients that are divided by a scale before the next step."""
    flow, lines = case.dataflow, defaultdict[int | None, list[Unscaled]](list)
    for step in case.histories.steps:
        first, backward = flow.step_before(step), case.histories.backward_of_step(step)
        if backward is None or not flow.log.calls[backward].function.endswith("backward"):
            continue
        earlier = flow.backward_before(backward)
        is_only = earlier is None or earlier < first or not first
        found = _division(flow, backward, step) if is_only else None
        if found is not None:
            division, scale = found
            if _looks_for_inf(flow, backward, step) or "scal" in _words(case, division):
                sizes = set(_sizes(flow, backward))
                if scale not in sizes:
                    is_scaled = _may_be_scaled(flow, backward)
                    lines[flow.log.calls[backward].call_site].append(Unscaled(backward, division, scale, is_scaled))
    return lines


def _division(flow: Dataflow, backward: int, step: int) -> tuple[int, float] | None:
    """The call between a backward and a step that divides gradients by a power of two, and this number."""
    for row in range(backward + 1, step):
        call = flow.log.calls[row]
        if single_name(call) not in ("div", "mul") or call.kind != "operation":
            continue
        for single in flow.lists.singles(row)[:1]:
            is_of_gradient = bool(single.inputs) and _is_gradient(flow, single.inputs[0].tensor)
            scale = _divisor(flow, single, row) if is_of_gradient else None
            if scale is not None and scale >= _LEAST_SCALE and frexp(scale)[0] == _HALF:
                return row, scale
    return None


def _is_gradient(flow: Dataflow, tensor: int) -> bool:
    """Whether a tensor is the gradient of a leaf, or shares its memory, as ``p.grad.data`` does."""
    return any(flow.log.tensors[each].gradient_of is not None for each in flow.sharing_memory(tensor))


def _divisor(flow: Dataflow, call: Call, row: int) -> float | None:
    """The number by which a call divides; of a product, one divided by its factor."""
    number = call.scalars.get("1", call.scalars.get("other"))
    if len(call.inputs) == _BOTH and prod(shape_of(flow, call.inputs[1].tensor)) == 1:
        values = flow.values_of(call.inputs[1], row)
        number = None if values is None else values.minimum
    if type(number) not in (int, float) or not number:
        return None
    return float(number) if plain_name(call.function) == "div" else 1 / float(number)


def _looks_for_inf(flow: Dataflow, backward: int, step: int) -> bool:
    return any(plain_name(flow.log.calls[row].function) in _LOOKS for row in range(backward + 1, step))


def _words(case: Case, row: int) -> str:
    """The line of a call, and the name of the function around it."""
    line = case.dataflow.line_of(row)
    function = "" if line is None else line.function
    return f"{case.source_line(case.location_of_call(row)) or ''} {function}".lower()


def _above(flow: Dataflow, backward: int) -> Iterator[tuple[int, Call]]:
    """The calls of the step that a loss was computed by."""
    since = flow.step_before(backward)
    for use in flow.log.calls[backward].roots:
        yield from ((row, flow.log.calls[row]) for row in flow.ancestors(use.tensor, backward, since))


def _sizes(flow: Dataflow, backward: int) -> Iterator[int]:
    """The lengths of all axes of what a loss was computed from, and how many elements that has."""
    for _, call in _above(flow, backward):
        for use in call.inputs:
            shape = shape_of(flow, use.tensor)
            yield from shape
            yield prod(shape)


def _may_be_scaled(flow: Dataflow, backward: int) -> bool:
    """Whether a factor of a loss, or the gradient that a backward begins with, is as large as a scale."""
    begun = (use for use in flow.log.calls[backward].inputs if use.place.startswith("gradient"))
    if any(_is_large(flow, use, backward) for use in begun):
        return True
    for row, call in _above(flow, backward):
        if plain_name(call.function) not in ("mul", "div"):
            continue
        numbers = (number for number in call.scalars.values() if type(number) in (int, float) and number)
        sizes = (abs(float(number)) for number in numbers)
        if any(max(size, 1 / size) >= _LEAST_SCALE for size in sizes):
            return True
        if any(prod(shape_of(flow, use.tensor)) == 1 and _is_large(flow, use, row) for use in call.inputs):
            return True
    return False


def _is_large(flow: Dataflow, use: TensorUse, row: int) -> bool:
    """Whether all numbers of a tensor that has no gradient are as large as a scale."""
    values = flow.values_of(use, row)
    return not use.requires_grad and (values is None or values.minimum is None or values.minimum >= _LEAST_SCALE)
