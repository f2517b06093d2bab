"""What a diffusion model multiplies data and noise with: factors from the products of its schedule."""

from __future__ import annotations

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call


class ScheduleFactor(Struct, frozen=True):
    """What data or noise is multiplied with, and comes from a ``cumprod()``."""

    row: int
    source: int
    """The call of ``cumprod()``."""
    is_rest: bool
    """Whether it was taken away from one."""
    has_root: bool


_BOTH = 2
_HALF = 0.5
_MAX_STEPS = 12
_CARRY = frozenset({
    "getitem", "gather", "index_select", "view", "reshape", "unsqueeze", "squeeze", "expand", "to", "float", "clone",
    "detach", "expand_as", "flatten", "contiguous", "take", "repeat", "view_as",
})  # fmt: skip


def mixed_factors(flow: Dataflow, row: int, call: Call) -> tuple[ScheduleFactor, ScheduleFactor] | None:
    """The factors of both summands of a call that mixes two tensors with parts of one schedule, ``a`` and ``1 - a``:
    that of ``a`` first."""
    if plain_name(call.function) != "add" or len(call.inputs) != _BOTH:
        return None
    one, other = (_factor(flow, use.tensor, row) for use in call.inputs)
    if one is None or other is None or one.source != other.source or one.is_rest == other.is_rest:
        return None
    return (other, one) if one.is_rest else (one, other)


def _factor(flow: Dataflow, product: int, before: int) -> ScheduleFactor | None:
    row = flow.newest_producer(product, before)
    if row is None or plain_name(flow.log.calls[row].function) != "mul":
        return None
    found = (_from_schedule(flow, use.tensor, row) for use in flow.log.calls[row].inputs)
    return next((each for each in found if each is not None), None)


def _from_schedule(flow: Dataflow, tensor: int, product: int) -> ScheduleFactor | None:
    is_rest = has_root = False
    for row, call in flow.makers(tensor, product, _MAX_STEPS):
        name = plain_name(call.function)
        if name == "cumprod":
            return ScheduleFactor(product, row, is_rest, has_root)
        if name == "sqrt" or (name == "pow" and call.scalars.get("1") == _HALF):
            has_root = True
        elif name in ("sub", "rsub") and len(call.inputs) == 1 and not is_rest:
            is_rest = True
        elif name not in _CARRY:
            return None
    return None
