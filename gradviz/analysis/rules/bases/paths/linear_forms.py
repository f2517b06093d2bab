"""Tensors as sums of others, with factors that are numbers or linear in a time: ``(1 - t) * a + t * b``."""

from __future__ import annotations

from math import prod

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, tensor_before
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, is_number_first, number_of
from gradviz.graph.call_log import Call, TensorUse

Factor = tuple[float, float]
"""A constant, and what is multiplied with the time."""


class LinearForm(Struct, frozen=True):
    """A sum of tensors with factors."""

    factors: dict[int, Factor]
    """By tensor."""
    time: int | None
    """The tensor with the time; None if no factor depends on one."""

    @property
    def speeds(self) -> dict[int, float]:
        """By tensor, how its factor changes with the time."""
        return {tensor: slope for tensor, (_, slope) in self.factors.items() if slope}


class _Part(Struct, frozen=True):
    tensor: int
    before: int
    factor: Factor


_BOTH = 2
_MAX_PARTS = 24
_MAX_AFFINE = 8
_KEEPS = frozenset({"float", "to", "clone", "contiguous", "detach", "double"})
_UNIFORM = frozenset({"rand", "rand_like", "uniform", "sigmoid", "linspace"})


def linear_form(flow: Dataflow, tensor: int, before: int) -> LinearForm | None:
    """A tensor as a sum of others; None if it depends on a time otherwise."""
    factors: dict[int, Factor] = {}
    times: set[int] = set()
    waiting, count = [_Part(tensor, before, (1.0, 0.0))], 0
    while waiting and count < _MAX_PARTS:
        count += 1
        part = waiting.pop()
        row = flow.newest_producer(part.tensor, part.before)
        parts = None if row is None else _parts(flow, row, part, times)
        if parts is None:
            constant, slope = factors.get(part.tensor, (0.0, 0.0))
            factors[part.tensor] = constant + part.factor[0], slope + part.factor[1]
        elif not parts:
            return None
        else:
            waiting += parts
    return None if waiting or len(times) > 1 else LinearForm(factors, next(iter(times), None))


def _parts(flow: Dataflow, row: int, part: _Part, times: set[int]) -> list[_Part] | None:
    """What a call adds up; None if it is no sum, and nothing if the time is squared."""
    call = flow.log.calls[row]
    name, inputs = plain_name(call.function), call.inputs
    if name in _KEEPS and len(inputs) == 1:
        return [_Part(inputs[0].tensor, row, part.factor)]
    if name in ("add", "sub") and len(inputs) == _BOTH:
        return [_Part(use.tensor, row, _times(part.factor, _sign(call, use))) for use in inputs]
    if name == "neg":
        return [_Part(inputs[0].tensor, row, _times(part.factor, -1.0))]
    if name in ("mul", "div") and len(inputs) == 1 and not (name == "div" and is_number_first(call)):
        number = number_of(call, *OPERAND, missing=0.0)
        scale = 1 / number if name == "div" and number else number
        return [_Part(inputs[0].tensor, row, _times(part.factor, scale))] if scale else None
    if name == "mul" and len(inputs) == _BOTH:
        return _of_product(flow, row, part, times)
    if name == "lerp" and len(inputs) == _BOTH + 1:
        return _of_mixture(flow, row, part, times)
    return None


def _sign(call: Call, use: TensorUse) -> float:
    alpha = number_of(call, "alpha", missing=1.0)
    is_second = (use.place in ("1", "other")) is not is_number_first(call)
    if not is_second:
        return 1.0
    return -alpha if plain_name(call.function) == "sub" else alpha


def _times(factor: Factor, number: float) -> Factor:
    return factor[0] * number, factor[1] * number


def _of_product(flow: Dataflow, row: int, part: _Part, times: set[int]) -> list[_Part] | None:
    call = flow.log.calls[row]
    for use, other in (call.inputs, call.inputs[::-1]):
        found = _affine(flow, use, other, row)
        if found is not None:
            return _scaled(part, other.tensor, row, found, times)
    return None


def _of_mixture(flow: Dataflow, row: int, part: _Part, times: set[int]) -> list[_Part] | None:
    one, other, weight = flow.log.calls[row].inputs
    found = _affine(flow, weight, one, row)
    if found is None:
        return None
    time, (constant, slope) = found
    rest = time, (1 - constant, -slope)
    return [*_scaled(part, one.tensor, row, rest, times), *_scaled(part, other.tensor, row, found, times)]


def _scaled(part: _Part, tensor: int, row: int, by: tuple[int, Factor], times: set[int]) -> list[_Part]:
    time, (constant, slope) = by
    if part.factor[1]:
        return []
    times.add(time)
    return [_Part(tensor, row, (part.factor[0] * constant, part.factor[0] * slope))]


def _affine(flow: Dataflow, use: TensorUse, other: TensorUse, row: int) -> tuple[int, Factor] | None:
    """The time, and how a factor depends on it, if it is a time for each sample and not for each element."""
    constant, slope = 0.0, 1.0
    tensor, before = use.tensor, row
    for _ in range(_MAX_AFFINE):
        tensor = tensor_before(flow, tensor, before, SHAPE_ONLY)
        made = flow.newest_producer(tensor, before)
        call = None if made is None else flow.log.calls[made]
        name = "" if call is None else plain_name(call.function)
        if call is None or made is None or len(call.inputs) != 1 or name not in ("add", "sub", "mul"):
            break
        number = number_of(call, *OPERAND, missing=0.0)
        if name == "mul":
            slope *= number
        else:
            turned = name == "sub" and is_number_first(call)
            constant += slope * (-number if name == "sub" and not turned else number)
            slope *= -1 if turned else 1
        tensor, before = call.inputs[0].tensor, made
    return (tensor, (constant, slope)) if _is_time(flow, tensor, use, other, row) else None


def _is_time(flow: Dataflow, time: int, use: TensorUse, other: TensorUse, row: int) -> bool:
    values = flow.values(time, row)
    if values is None or values.minimum is None or values.maximum is None or values.minimum < 0 or values.maximum > 1:
        return False
    sizes = [prod(shape_of(flow, each.tensor)) for each in (use, other)]
    made = flow.newest_producer(time, row)
    is_drawn = made is not None and plain_name(flow.log.calls[made].function) in _UNIFORM
    return sizes[0] < sizes[1] or (sizes[0] == sizes[1] and is_drawn)
