"""Masks that hide scores from a softmax: those that are filled in with a number far below zero, or add one."""

from __future__ import annotations

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, TensorUse

HIDING = frozenset({"masked_fill", "where", "setitem", "add", "sub", "scaled_dot_product_attention"})
"""The plain names of calls that may hide scores."""
_FAR_BELOW = -1e3
_MAX_FOLLOWED = 8
_KEEPS = frozenset({
    "to", "float", "half", "double", "bfloat16", "type", "type_as", "unsqueeze", "squeeze", "view", "reshape", "expand",
    "getitem", "clone", "contiguous", "transpose",
})  # fmt: skip


class HidingMask(Struct, frozen=True):
    """A tensor of yes and no, as a call takes it."""

    row: int
    tensor: int
    hides_true: bool
    """Whether it hides where it is true."""


def mask_of(flow: Dataflow, row: int, call: Call) -> HidingMask | None:
    """The mask with which a call hides some of the scores that it gets."""
    name = plain_name(call.function)
    if name == "scaled_dot_product_attention":
        mask = next((use for use in call.inputs if use.place in ("3", "attn_mask")), None)
        if mask is not None and _is_bool(flow, mask):
            return HidingMask(row, mask.tensor, hides_true=False)
        return None if mask is None else _of_term(flow, row, mask, is_added=True)
    if name in ("masked_fill", "setitem"):
        mask = next((use for use in call.inputs[1:] if _is_bool(flow, use)), None)
        is_low = mask is not None and _is_low(flow, row, call, ("2", "value"))
        return HidingMask(row, mask.tensor, hides_true=True) if mask is not None and is_low else None
    if name == "where":
        return _of_choice(flow, row, call)
    rest = [use for use in call.inputs if not use.requires_grad]
    if len(call.live_inputs) != 1 or len(rest) != 1 or (name == "sub" and rest[0].place == "0"):
        return None
    return _of_term(flow, row, rest[0], is_added=name == "add")


def _of_choice(flow: Dataflow, row: int, call: Call) -> HidingMask | None:
    """Of ``where(mask, a, b)`` and ``a.where(mask, b)``."""
    mask = next((use for use in call.inputs if _is_bool(flow, use)), None)
    if mask is None:
        return None
    first = ("0",) if mask.place in ("1", "condition") and "0" in {use.place for use in call.inputs} else ("1", "input")
    lows = [_is_low(flow, row, call, places) for places in (first, ("2", "other"))]
    return HidingMask(row, mask.tensor, hides_true=lows[0]) if lows.count(True) == 1 else None


def _is_low(flow: Dataflow, row: int, call: Call, places: tuple[str, ...]) -> bool:
    """Whether an argument is a number far below zero, or a constant that only has such numbers."""
    for place in places:
        number = call.scalars.get(place)
        if isinstance(number, int | float):
            return number <= _FAR_BELOW
    use = next((use for use in call.inputs if use.place in places), None)
    values = None if use is None or use.requires_grad else flow.values_of(use, row)
    if values is None or values.nans:
        return False
    return values.infs == values.count if values.maximum is None else values.maximum <= _FAR_BELOW


def _of_term(flow: Dataflow, row: int, term: TensorUse, *, is_added: bool) -> HidingMask | None:
    """Of what is added to scores or taken from them: zeros, and numbers far from zero where a mask hides."""
    values = flow.values_of(term, row)
    if values is None or not values.zeros or not _reaches(values.minimum, values.maximum, values.infs, is_added):
        return None
    sign, tensor = 1 if is_added else -1, term.tensor
    for _ in range(_MAX_FOLLOWED):
        made = flow.newest_producer(tensor, row)
        if made is None:
            return None
        row, call = made, flow.log.calls[made]
        name = plain_name(call.function)
        if name in ("masked_fill", "where", "setitem"):
            return mask_of(flow, row, call) if sign > 0 else None
        if len(call.inputs) != 1:
            return None
        tensor, number = call.inputs[0].tensor, _number(call)
        if name == "log" and sign > 0:
            return HidingMask(row, tensor, hides_true=False)
        if name in ("mul", "div") and number:
            sign = sign if number > 0 else -sign
            if sign < 0 and _is_of_ones(flow, tensor, row):
                return _of_ones(flow, row, tensor)
        elif name == "sub" and number == 1 and sign > 0 and not call.function.endswith("rsub__"):
            return HidingMask(row, tensor, hides_true=False)  # mask - 1 is below zero where the mask is false
        elif name == "neg":
            sign = -sign
        elif name not in _KEEPS:
            return None
    return None


def _reaches(minimum: float | None, maximum: float | None, infs: int, is_added: bool) -> bool:
    end = minimum if is_added else maximum
    return bool(infs) or (end is not None and (end <= _FAR_BELOW if is_added else end >= -_FAR_BELOW))


def _number(call: Call) -> float:
    number = next((call.scalars[place] for place in ("1", "0", "other") if place in call.scalars), 0)
    return float(number) if isinstance(number, int | float) else 0.0


def _is_of_ones(flow: Dataflow, tensor: int, row: int) -> bool:
    values = flow.values(tensor, row)
    return values is not None and values.minimum == 0 and values.maximum == 1


def _of_ones(flow: Dataflow, row: int, tensor: int) -> HidingMask:
    """Of ones that are subtracted many times: they hide, as they are or as ``1 - mask``."""
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    if made is not None and call is not None and plain_name(call.function) == "sub" and len(call.inputs) == 1:
        return HidingMask(made, call.inputs[0].tensor, hides_true=False)
    return HidingMask(row, tensor, hides_true=True)


def _is_bool(flow: Dataflow, use: TensorUse) -> bool:
    return flow.log.tensors[use.tensor].facts.dtype in ("bool", "uint8")
