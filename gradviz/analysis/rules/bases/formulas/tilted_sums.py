"""The quantile loss as a sum of the size of an error and the error itself: ``|e| / 2 + (q - 0.5) * e``."""

from __future__ import annotations

import re

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, is_number_first, number_of
from gradviz.graph.call_log import Call, TensorUse


class TiltedSum(Struct, frozen=True):
    """Half of the size of an error, with a share of the error itself."""

    error: int
    is_q_above: bool
    """Whether positive errors are weighed with what the program calls the quantile, and negative ones with the rest."""
    q: float
    """The quantile, or one of several."""


class _Part(Struct, frozen=True):
    """A multiple of an error, or of its size."""

    error: int
    sign: int
    """Of the number itself, or of what the program does with the product."""
    is_size: bool
    number: float
    """What multiplies it; of several numbers the least."""
    tilt: TensorUse | None
    """The tensor of these numbers."""
    rows: tuple[int, ...]
    """The calls that multiply."""


_NAME = r"[A-Za-z_][\w.\[\]]*"
_TILT = re.compile(rf"{_NAME}\s*-\s*0?\.50?\b|\b2(?:\.0*)?\s*\*\s*{_NAME}\s*-\s*1\b")
_TURNED = re.compile(rf"(?<![\w.])0?\.50?\s*-\s*{_NAME}|\b1(?:\.0*)?\s*-\s*2(?:\.0*)?\s*\*\s*{_NAME}")
_BOTH = 2
_HALF = 0.5
_MAX_STEPS = 6


def tilted_sum(case: Case, row: int, call: Call) -> TiltedSum | None:
    """The error of such a sum, if a line of the program or the flow says which number is the quantile."""
    is_difference = plain_name(call.function) == "sub"
    parts = list[_Part]()
    for place, use in enumerate(call.inputs):
        number = number_of(call, "alpha", missing=1.0) if place == 1 else 1.0
        part = _part(case.dataflow, use.tensor, row, -1 if is_difference and place == 1 else 1, number)
        if part is None:
            return None
        parts.append(part)
    one, other = parts
    if one.is_size == other.is_size or one.error != other.error:
        return None
    size, whole = (one, other) if one.is_size else (other, one)
    tilt = _sign_of_quantile(case, whole, row)
    share = whole.number / (size.number * _BOTH) if size.number * size.sign > 0 else 0.0
    if not tilt or not 0 < abs(share) < _HALF:
        return None
    return TiltedSum(whole.error, whole.sign * tilt > 0, _HALF + tilt * share)


def _part(flow: Dataflow, tensor: int, row: int, sign: int, number: float) -> _Part | None:
    is_size, tilt, rows = False, None, [row]
    for _ in range(_MAX_STEPS):
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or len(call.live_inputs) != 1:
            break
        name, dead = plain_name(call.function), [use for use in call.inputs if not use.requires_grad]
        if name == "neg":
            sign = sign if is_size else -sign
        elif name == "abs" and not is_size:
            is_size = True
        elif name in ("mul", "div") and len(dead) <= 1:
            own = _number(flow, made, call, dead[0] if dead else None)
            if not own or is_size:
                return None
            number, tilt = (number * own if name == "mul" else number / own), dead[0] if dead else tilt
            rows.append(made)
        else:
            break
        tensor, row = call.live_inputs[0].tensor, made
    return _Part(tensor, sign, is_size, number, tilt, tuple(rows))


def _number(flow: Dataflow, row: int, call: Call, use: TensorUse | None) -> float | None:
    if use is not None:
        values = flow.values_of(use, row)
        return None if values is None else values.minimum or values.maximum
    is_divided = plain_name(call.function) == "div" and is_number_first(call)
    return None if is_divided else number_of(call, *OPERAND, missing=0.0)


def _sign_of_quantile(case: Case, part: _Part, row: int) -> int:
    """1 where the number is ``q - 0.5``, -1 where it is ``0.5 - q``, 0 where nothing tells it."""
    flow = case.dataflow
    if part.tilt is not None:
        made = value_maker(flow, part.tilt.tensor, row)
        if made is not None and plain_name(made[1].function) == "sub" and len(made[1].inputs) == 1:
            return -1 if is_number_first(made[1]) else 1
    text = "".join(dict.fromkeys(case.source_line(location_of_call(flow, each)) or "" for each in (*part.rows, row)))
    is_tilt, is_turned = _TILT.search(text) is not None, _TURNED.search(text) is not None
    return 0 if is_tilt == is_turned else 1 if is_tilt else -1
