"""What a diffusion model multiplies data and noise with: factors from the products of its schedule.

A cosine schedule (Nichol and Dhariwal 2021) has its products in a closed form: squares of a cosine, divided by the
first.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.products import is_square
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, number_of
from gradviz.graph.call_log import Call, TensorUse


class ScheduleFactor(Struct, frozen=True):
    """What data or noise is multiplied with, and comes from a ``cumprod()``."""

    row: int
    source: int
    """The call of ``cumprod()``, or the one that squares a cosine."""
    is_rest: bool
    """Whether it was taken away from one."""
    has_root: bool


_BOTH = 2
_HALF = 0.5
_MAX_STEPS = 12
_CARRY = frozenset({
    "getitem", "gather", "index_select", "view", "reshape", "unsqueeze", "squeeze", "expand", "to", "float", "clone",
    "detach", "expand_as", "flatten", "contiguous", "take", "repeat", "view_as", "embedding",
    "take_along_dim", "select", "narrow", "clamp", "clip", "clamp_min", "clamp_max", "flip", "double",
})  # fmt: skip


def mixed_factors(flow: Dataflow, row: int, call: Call) -> tuple[ScheduleFactor, ScheduleFactor] | None:
    """The factors of both summands of a call that mixes two tensors with parts of one schedule, ``a`` and ``1 - a``:
    that of ``a`` first."""
    name = plain_name(call.function)
    if name == "lerp":
        return _of_lerp(flow, row, call)
    if name == "add" and len(call.inputs) == _BOTH:
        one, other = (_factor(flow, use.tensor, row) for use in call.inputs)
    elif name == "addcmul" and len(call.inputs) == _BOTH + 1:
        one = _factor(flow, call.inputs[0].tensor, row)
        other = _first_from_schedule(flow, call.inputs[1:], row)
    else:
        return None
    if one is None or other is None or one.source != other.source or one.is_rest == other.is_rest:
        return None
    return (other, one) if one.is_rest else (one, other)


def _of_lerp(flow: Dataflow, row: int, call: Call) -> tuple[ScheduleFactor, ScheduleFactor] | None:
    """``lerp(noise, data, a)`` is ``(1 - a) * noise + a * data``."""
    weight = [use for use in call.inputs if use.place in ("2", "weight")]
    part = _first_from_schedule(flow, tuple(weight), row)
    if part is None or part.has_root:
        return None
    rest = replace(part, is_rest=not part.is_rest)
    return (rest, part) if part.is_rest else (part, rest)


def _factor(flow: Dataflow, product: int, before: int) -> ScheduleFactor | None:
    row = flow.newest_producer(product, before)
    if row is None or plain_name(flow.log.calls[row].function) != "mul":
        return None
    return _first_from_schedule(flow, flow.log.calls[row].inputs, row)


def _first_from_schedule(flow: Dataflow, uses: tuple[TensorUse, ...], row: int) -> ScheduleFactor | None:
    found = (_from_schedule(flow, use.tensor, row) for use in uses)
    return next((each for each in found if each is not None), None)


def _is_half(call: Call, name: str) -> bool:
    return len(call.inputs) == 1 and number_of(call, *OPERAND, missing=0.0) == (_HALF if name == "mul" else 1 / _HALF)


def _from_schedule(flow: Dataflow, tensor: int, product: int) -> ScheduleFactor | None:
    is_rest = has_root = is_exponential = False
    for row, call in flow.makers(tensor, product, _MAX_STEPS):
        name = plain_name(call.function)
        if is_square(call) and _is_cosine(flow, call, row):
            return ScheduleFactor(product, row, is_rest, has_root)
        if name == "cumprod" or (name == "cumsum" and is_exponential):  # of logarithms
            return ScheduleFactor(product, row, is_rest, has_root)
        if name == "sqrt" or (name == "pow" and call.scalars.get("1") == _HALF):
            has_root = True
        elif name == "exp":
            is_exponential = True
        elif is_exponential and name in ("mul", "div") and _is_half(call, name):
            has_root = True
        elif name in ("sub", "rsub") and len(call.inputs) == 1 and not is_rest:
            is_rest = True
        elif name not in _CARRY and not (name == "div" and _is_by_its_first(flow, call, row)):
            return None
    return None


def _is_cosine(flow: Dataflow, call: Call, row: int) -> bool:
    made = flow.newest_producer(call.inputs[0].tensor, row)
    return made is not None and plain_name(flow.log.calls[made].function) == "cos"


def _is_by_its_first(flow: Dataflow, call: Call, row: int) -> bool:
    """Whether values are divided by an element of themselves: ``f / f[0]``."""
    made = flow.newest_producer(call.inputs[-1].tensor, row) if len(call.inputs) == _BOTH else None
    part = None if made is None else flow.log.calls[made]
    is_part = part is not None and plain_name(part.function) in ("getitem", "select", "narrow")
    return is_part and part is not None and part.inputs[0].tensor == call.inputs[0].tensor
