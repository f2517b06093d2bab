"""Multiples of an error, or of its positive or negative part, as terms of a sum."""

from __future__ import annotations

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, number_of
from gradviz.graph.call_log import Call, TensorUse


class Summand(Struct, frozen=True):
    """A multiple of an error, or of its positive or negative part."""

    error: int
    sign: int
    is_part: bool
    """Whether it is ``relu(e)``, or ``relu(-e)`` if `is_of_negative`."""
    is_of_negative: bool
    factor: TensorUse | float | None
    row: int
    """The call that multiplies, or the call of the sum."""


def share_of(flow: Dataflow, part: Summand) -> float | None:
    """The number between 0 and 1 that multiplies, or one of several."""
    if not isinstance(part.factor, TensorUse):
        return part.factor if part.factor is not None and 0 < part.factor < 1 else None
    values = flow.values_of(part.factor, part.row)
    if values is None or values.minimum is None or values.maximum is None:
        return None
    return values.minimum if 0 < values.minimum <= values.maximum < 1 else None


def summand_of(flow: Dataflow, tensor: int, row: int, sign: int, alpha: float | None) -> Summand | None:
    """What a sum adds or takes away, followed up to the error; perhaps with a factor `alpha` of the sum."""
    factor: TensorUse | float | None = None if alpha in (None, 1.0) else abs(alpha or 0.0)
    sign = -sign if alpha is not None and alpha < 0 else sign
    is_part, is_of_negative, place = False, False, row
    for _ in range(_MAX_STEPS):
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        name = "" if call is None else plain_name(call.function)
        if made is None or call is None or len(call.live_inputs) != 1:
            break
        if name == "neg":
            is_of_negative, sign = (not is_of_negative, sign) if is_part else (is_of_negative, -sign)
        elif name == "mul" and not is_part and factor is None:
            dead = [use for use in call.inputs if not use.requires_grad]
            number = number_of(call, *OPERAND, missing=0.0)
            factor, place = (dead[0] if dead else abs(number)), made
            sign = -sign if not dead and number < 0 else sign
        elif (name == "relu" or _is_clamp_at_zero(call, name)) and not is_part:
            is_part = True
        else:
            break
        tensor, row = call.live_inputs[0].tensor, made
    return Summand(tensor, sign, is_part, is_of_negative, factor, place)


_MAX_STEPS = 6


def _is_clamp_at_zero(call: Call, name: str) -> bool:
    has_upper = name == "clamp" and ("max" in call.scalars or "2" in call.scalars)
    return name in ("clamp", "clamp_min") and not has_upper and call.scalars.get("min", call.scalars.get("1")) == 0
