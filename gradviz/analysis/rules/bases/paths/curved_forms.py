"""Tensors as sums of others, with cosines and sines of a time as factors: ``cos(r * t) * a + sin(r * t) * b``."""

from __future__ import annotations

from math import isclose

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import PARTS, SHAPE_ONLY
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, is_number_first, number_of
from gradviz.graph.call_log import Call


class Curve(Struct, frozen=True):
    """A cosine or a sine of a time."""

    function: str
    time: int
    """The tensor with the time."""
    rate: float
    """What the time is multiplied with."""


class CurvedForm(Struct, frozen=True):
    """A sum of tensors, each with a curve as its factor, and a number with that."""

    parts: dict[int, tuple[Curve, float]]
    """By tensor."""


class _Part(Struct, frozen=True):
    tensor: int
    before: int
    factor: float
    curve: Curve | None = None


_TURNS = {"cos": ("sin", -1.0), "sin": ("cos", 1.0)}
"""By function, its derivative."""
_BOTH = 2
_MAX_PARTS = 24
_MAX_FACTORS = 10
_KEEPS = (SHAPE_ONLY - PARTS) | {"detach"}


def are_opposite(path: CurvedForm, wanted: CurvedForm) -> bool:
    """Whether a sum is the speed of another one with the opposite sign, perhaps in another scale."""
    if path.parts.keys() != wanted.parts.keys() or len(path.parts) < _BOTH:
        return False
    scales: list[float] = []
    for tensor, (curve, factor) in path.parts.items():
        other, sign = _TURNS[curve.function]
        named, number = wanted.parts[tensor]
        is_same = named.time == curve.time and isclose(named.rate, curve.rate, rel_tol=1e-5)
        if named.function != other or not is_same or not factor * curve.rate:
            return False
        scales.append(number / (sign * factor * curve.rate))
    return scales[0] < 0 and all(isclose(each, scales[0], rel_tol=1e-4) for each in scales)


def curved_form(flow: Dataflow, tensor: int, before: int) -> CurvedForm | None:
    """A tensor as such a sum; None if it is another one."""
    found: dict[int, tuple[Curve, float]] = {}
    waiting = [_Part(tensor, before, 1.0)]
    for _ in range(_MAX_PARTS):
        if not waiting:
            return CurvedForm(found) if found else None
        part = waiting.pop()
        parts = _parts(flow, part)
        if parts:
            waiting += parts
        elif part.curve is None or part.tensor in found:
            return None
        else:
            found[part.tensor] = part.curve, part.factor
    return None


def _parts(flow: Dataflow, part: _Part) -> list[_Part]:
    """What the call that made a tensor adds up; nothing if it is no sum."""
    row = flow.newest_producer(part.tensor, part.before)
    if row is None:
        return []
    call = flow.log.calls[row]
    name, inputs = plain_name(call.function), call.inputs
    if name in _KEEPS and len(inputs) == 1:
        return [_Part(inputs[0].tensor, row, part.factor, part.curve)]
    number = _number_of(call, name)
    if number is not None:
        return [_Part(inputs[0].tensor, row, part.factor * number, part.curve)]
    if name in ("add", "sub") and len(inputs) == _BOTH:
        alpha = number_of(call, "alpha", missing=1.0) * (-1 if name == "sub" else 1)
        second = 0 if is_number_first(call) else 1
        signs = [alpha if at == second else 1.0 for at in range(_BOTH)]
        return [_Part(use.tensor, row, part.factor * sign, part.curve) for use, sign in zip(inputs, signs, strict=True)]
    if part.curve is not None:
        return []
    if name == "addcmul" and len(inputs) == _BOTH + 1:
        product = _of_product(flow, row, call, 1, part.factor * number_of(call, "value", missing=1.0))
        return [_Part(inputs[0].tensor, row, part.factor), *product] if product else []
    return _of_product(flow, row, call, 0, part.factor) if name == "mul" and len(inputs) == _BOTH else []


def _of_product(flow: Dataflow, row: int, call: Call, first: int, factor: float) -> list[_Part]:
    one, other = call.inputs[first : first + _BOTH]
    for use, rest in ((one, other), (other, one)):
        found = _curve(flow, use.tensor, row)
        if found is not None:
            return [_Part(rest.tensor, row, factor * found[1], found[0])]
    return []


def _number_of(call: Call, name: str) -> float | None:
    """The number with which a call multiplies a tensor."""
    if name == "neg":
        return -1.0
    if name not in ("mul", "div") or len(call.inputs) != 1 or (name == "div" and is_number_first(call)):
        return None
    number = number_of(call, *OPERAND, missing=0.0)
    return (1 / number if name == "div" else number) if number else None


def _curve(flow: Dataflow, tensor: int, row: int) -> tuple[Curve, float] | None:
    """A cosine or sine of a time, and the number with which it was multiplied."""
    function, factor, rate = "", 1.0, 1.0
    for _ in range(_MAX_FACTORS):
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or len(call.inputs) != 1:
            break
        name = plain_name(call.function)
        number = 1.0 if name in _KEEPS else _number_of(call, name)
        if name in _TURNS and not function:
            function = name
        elif number is None:
            break
        elif function:
            rate *= number
        else:
            factor *= number
        tensor, row = call.inputs[0].tensor, made
    return (Curve(function, tensor, rate), factor) if function else None
