"""Between which values a tensor can be, whatever the parameters are: those of a sigmoid, moved and scaled with data."""

from __future__ import annotations

from math import inf

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.graph.call_log import Call, TensorUse

Interval = tuple[float, float]

RANGES: dict[str, Interval] = {
    "sigmoid": (0.0, 1.0), "softmax": (0.0, 1.0), "hardsigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0), "relu": (0.0, inf),
    "relu6": (0.0, 6.0), "softplus": (0.0, inf), "exp": (0.0, inf), "softmin": (0.0, 1.0), "softsign": (-1.0, 1.0),
    "erf": (-1.0, 1.0), "square": (0.0, inf), "abs": (0.0, inf), "exp2": (0.0, inf),
    "sin": (-1.0, 1.0), "cos": (-1.0, 1.0),
    "silu": (-0.2785, inf), "gelu": (-0.17, inf), "mish": (-0.3089, inf), "hardswish": (-0.375, inf),
    "selu": (-1.7581, inf), "cosine_similarity": (-1.0, 1.0),
}  # fmt: skip


class Bounds(Struct, frozen=True):
    """The interval of a tensor, and the call that bounds it."""

    row: int
    low: float
    high: float


def bounds_of_call(call: Call) -> Interval | None:
    """The lowest and the highest value that an operation can return."""
    name = plain_name(call.function)
    if name in _WITH_ALPHA:
        alpha = _number(call, "alpha", "1")
        return -abs(1.0 if alpha is None else alpha), inf
    places = _PLACES_OF_BOUNDS.get(name)
    if places is None:
        return RANGES.get(name)
    low, high = (_number(call, *each) for each in places)
    if name == "hardtanh":
        return -1.0 if low is None else low, 1.0 if high is None else high
    if name == "threshold":  # what is not above the first number becomes the second
        return None if low is None or high is None else (min(low, high), inf)
    return None if low is None else (low, inf if high is None else high)


_WITH_ALPHA = frozenset({"elu", "celu"})
_PLACES_OF_BOUNDS: dict[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "clamp": (("min", "1"), ("max", "2")), "clip": (("min", "1"), ("max", "2")),
    "clamp_min": (("min", "1"), ("", "")), "hardtanh": (("min_val", "1"), ("max_val", "2")),
    "threshold": (("threshold", "1"), ("value", "2")),
}  # fmt: skip
"""The names and positions of the two numbers that bound a result."""


def _number(call: Call, name: str, place: str) -> float | None:
    number = call.scalars.get(name, call.scalars.get(place))
    return float(number) if type(number) in (int, float) else None  # type: ignore[arg-type]


def is_never_negative(call: Call) -> bool:
    """Whether an operation that leaves what is positive as it is returns nothing below 0, as relu does."""
    bounds = bounds_of_call(call) if plain_name(call.function) in _RECTIFIERS else None
    return bounds is not None and bounds[0] >= 0


_RECTIFIERS = frozenset({"relu", "relu6", "softplus", "clamp", "clip", "clamp_min", "hardtanh", "threshold"})


def bounds_of(flow: Dataflow, use: TensorUse, row: int) -> Bounds | None:
    """The finite bounds of an input of a call that depends on parameters; None if it has none."""
    rows = _rows_above(flow, use.tensor, row)
    known: dict[int, Interval] = {}
    bounding = -1
    for each in sorted(rows or ()):
        call = flow.log.calls[each]
        interval = bounds_of_call(call)
        bounding = bounding if interval is None else each
        interval = interval or _computed(flow, each, call, known)
        if interval is None or inf in interval:
            return None
        known.update((out.tensor, interval) for out in call.outputs)
    found = known.get(use.tensor)
    return None if found is None or bounding < 0 else Bounds(bounding, *found)


_MAX_ROWS = 40
_PARTS = SHAPE_ONLY | {"chunk", "split", "unbind", "select", "narrow", "index_select", "masked_select"}
_JOIN = frozenset({"cat", "stack", "concat", "where", "minimum", "maximum"})
_ARITHMETIC = frozenset({"add", "sub", "mul", "div"})
_BOTH = 2


def _rows_above(flow: Dataflow, tensor: int, row: int) -> set[int] | None:
    """The calls between a tensor and the operations that bound it; None if something else makes it."""
    found = set[int]()
    waiting = [(tensor, row)]
    while waiting:
        given, before = waiting.pop()
        made = flow.newest_producer(given, before)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or len(found) > _MAX_ROWS:
            return None
        if made in found:
            continue
        found.add(made)
        if bounds_of_call(call) is None:
            if plain_name(call.function) not in _PARTS | _JOIN | _ARITHMETIC:
                return None
            waiting.extend((use.tensor, made) for use in call.inputs if use.requires_grad)
    return found


def _computed(flow: Dataflow, row: int, call: Call, known: dict[int, Interval]) -> Interval | None:
    name = plain_name(call.function)
    if name in _PARTS:
        return known.get(call.inputs[0].tensor)
    uses = [use for use in call.inputs if name != "where" or use.place not in ("0", "condition")]
    given = [known.get(use.tensor) if use.requires_grad else _of_data(flow, use, row) for use in uses]
    sides = [each for each in given if each is not None]
    if len(sides) != len(given) or not sides:
        return None
    if name in _JOIN:
        return min(low for low, _ in sides), max(high for _, high in sides)
    number = next((call.scalars[place] for place in ("0", "1", "other") if place in call.scalars), None)
    if len(sides) == 1 and isinstance(number, (int, float)):
        sides.append((float(number), float(number)))
    return _combined(name, call, sides) if len(sides) == _BOTH and "alpha" not in call.scalars else None


def _of_data(flow: Dataflow, use: TensorUse, row: int) -> Interval | None:
    values = flow.values_of(use, row)
    if values is None or values.minimum is None or values.maximum is None:
        return None
    return values.minimum, values.maximum


def _combined(name: str, call: Call, sides: list[Interval]) -> Interval | None:
    if "__r" in call.function or "0" in call.scalars:
        sides = sides[::-1]
    (low, high), (least, most) = sides
    if name == "add":
        return low + least, high + most
    if name == "sub":
        return low - most, high - least
    if name == "div":
        if least <= 0 <= most:
            return None
        least, most = 1 / most, 1 / least
    products = [low * least, low * most, high * least, high * most]
    return min(products), max(products)
