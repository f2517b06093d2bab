"""Errors that a loss weighs with one number where they are positive, and with another one where they are negative."""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.parts_of_errors import Summand, share_of, summand_of
from gradviz.analysis.rules.bases.formulas.products import is_squared
from gradviz.analysis.rules.bases.formulas.tilted_sums import tilted_sum
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, number_of
from gradviz.graph.call_log import Call, TensorUse


class WeighedError(Struct, frozen=True):
    """An error that has one factor where it is positive, and another one where it is negative."""

    error: int
    is_q_above: bool
    """Whether positive errors are weighed with the number that the program calls the quantile."""
    above: float | None = None
    below: float | None = None
    kind: str = "quantile"


_TWO = 2
_PAIRS = frozenset({"stack", "cat"})
_HALF = 0.5
_NAME = r"[A-Za-z_][\w.\[\]]*"
_ONE = r"1(?:\.0*)?"
_Q_MINUS_1 = re.compile(rf"\(\s*{_NAME}\s*-\s*{_ONE}\s*\)|-\s*\(\s*{_ONE}\s*-\s*{_NAME}\s*\)")
_1_MINUS_Q = re.compile(rf"\(\s*{_ONE}\s*-\s*{_NAME}\s*\)")
_ANY_REST = re.compile(rf"\b{_ONE}\s*-\s*{_NAME}")
_REST_LAST = re.compile(rf"where\([^,]+,\s*{_NAME}\s*,\s*\(?\s*{_ONE}\s*-\s*{_NAME}")
_REST_FIRST = re.compile(rf"where\([^,]+,\s*\(?\s*{_ONE}\s*-\s*{_NAME}\s*\)?\s*,\s*{_NAME}\s*\)")


def weighed_error(case: Case, row: int, call: Call) -> WeighedError | None:
    """The error that a call weighs so, if the lines of the program say which of the numbers is the quantile."""
    name = plain_name(call.function)
    if name in ("max", "maximum", "fmax", "where") and len(call.live_inputs) == _TWO:
        return _of_two_products(case, row, call)
    if name in ("add", "sub") and len(call.live_inputs) == _TWO == len(call.inputs):
        tilted = tilted_sum(case, row, call)
        if tilted is not None:
            above, below = (tilted.q, 1 - tilted.q) if tilted.is_q_above else (1 - tilted.q, tilted.q)
            return WeighedError(tilted.error, tilted.is_q_above, above, below)
        return _of_sum(case, row, call)
    if name in ("max", "amax") and len(call.live_inputs) == 1:
        made = value_maker(case.dataflow, call.live_inputs[0].tensor, row)
        is_pair = made is not None and plain_name(made[1].function) in _PAIRS and len(made[1].live_inputs) == _TWO
        return _of_two_products(case, *made) if made is not None and is_pair else None
    return _of_one_product(case, row, call) if name == "mul" and len(call.inputs) == _TWO else None


def _of_two_products(case: Case, row: int, call: Call) -> WeighedError | None:
    """``max(q * e, (q - 1) * e)``, also with ``where``."""
    flow = case.dataflow
    products = [_product(flow, use.tensor, row) for use in call.live_inputs]
    (one, other) = products
    if one is None or other is None or one[1] != other[1]:
        return None
    above, below = max(one[2], other[2]), min(one[2], other[2])
    text = "".join(dict.fromkeys(_text(case, each) for each in (row, one[0], other[0])))
    is_first, is_second = _Q_MINUS_1.search(text), _1_MINUS_Q.search(_Q_MINUS_1.sub("", text))
    if not above > 0 > below or above == -below or (is_first is None) == (is_second is None):
        return None
    return WeighedError(one[1], is_first is not None, above, -below)


def _product(flow: Dataflow, tensor: int, before: int) -> tuple[int, int, float] | None:
    """A product of a trained tensor with a number: its call, the tensor, and the number, or one of several."""
    made = flow.newest_producer(tensor, before)
    call = None if made is None else flow.log.calls[made]
    if made is None or call is None or plain_name(call.function) != "mul" or len(call.live_inputs) != 1:
        return None
    dead = [use for use in call.inputs if not use.requires_grad]
    values = flow.values_of(dead[0], made) if dead else None
    factor = number_of(call, *OPERAND, missing=0.0) if values is None else values.minimum
    is_of_one_sign = values is None or (values.minimum or 0) * (values.maximum or 0) > 0
    return (made, call.live_inputs[0].tensor, factor) if factor and is_of_one_sign else None


def _of_sum(case: Case, row: int, call: Call) -> WeighedError | None:
    """``q * e + relu(-e)``, ``relu(e) - q * e``, and ``q * relu(e) + (1 - q) * relu(-e)``."""
    flow = case.dataflow
    turned = [plain_name(call.function) == "sub" and use.place in ("1", "other") for use in call.inputs]
    alpha = number_of(call, "alpha", missing=1.0)
    one, other = (summand_of(flow, use.tensor, row, -1 if is_turned else 1, None if use is call.inputs[0] else alpha)
                  for use, is_turned in zip(call.inputs, turned, strict=True))  # fmt: skip
    if one is None or other is None or one.error != other.error:
        return None
    if one.is_part and other.is_part:
        return _of_two_parts(case, one, other)
    part, whole = (one, other) if one.is_part else (other, one)
    q = share_of(flow, whole)
    if not part.is_part or part.sign < 0 or part.factor is not None or whole.is_part or q is None:
        return None
    if part.is_of_negative == (whole.sign < 0):
        return None
    numbers = (None, None) if isinstance(whole.factor, TensorUse) else (q, 1 - q)
    return WeighedError(one.error, part.is_of_negative, *numbers[:: 1 if part.is_of_negative else -1])


def _of_two_parts(case: Case, one: Summand, other: Summand) -> WeighedError | None:
    above, below = (one, other) if other.is_of_negative else (other, one)
    if above.is_of_negative or not below.is_of_negative or min(above.sign, below.sign) < 0:
        return None
    are_rests = [_is_rest(case, each) for each in (above, below)]
    is_told = are_rests.count(True) == 1 and all(share_of(case.dataflow, each) is not None for each in (above, below))
    return WeighedError(one.error, are_rests[1]) if is_told else None


def _is_rest(case: Case, part: Summand) -> bool:
    """Whether a part is multiplied by ``1 - q``."""
    if isinstance(part.factor, TensorUse):
        made = value_maker(case.dataflow, part.factor.tensor, part.row)
        return made is not None and made[1].function.endswith(("rsub__", "rsub")) and len(made[1].inputs) == 1
    text = _text(case, part.row)
    return part.factor is not None and _ANY_REST.search(text) is not None and text.count("*") == 1


def _of_one_product(case: Case, row: int, call: Call) -> WeighedError | None:
    """``(q - (e < 0)) * e``, ``where(e > 0, q, 1 - q) * e ** 2``."""
    flow = case.dataflow
    live, dead = call.live_inputs, [use for use in call.inputs if not use.requires_grad]
    if len(live) != 1 or len(dead) != 1:
        return None
    error, kind = live[0].tensor, "quantile"
    made = value_maker(flow, error, row)
    if made is not None and (is_squared(made[1]) or plain_name(made[1].function) == "abs"):
        error, kind = made[1].live_inputs[0].tensor, "expectile" if is_squared(made[1]) else "quantile"
    weight = value_maker(flow, dead[0].tensor, row, through=frozenset({"abs", "detach"}))
    if weight is None:
        return None
    found = _of_choice(case, *weight, kind) or _of_step(case, *weight, kind)
    is_its_own = found is not None and found.error in _same_values(flow, error, row)
    return replace(found, error=error) if found is not None and is_its_own else None


def _same_values(flow: Dataflow, tensor: int, before: int) -> set[int]:
    """A tensor and what it was made of by a change of shape or by ``detach()``."""
    same = {tensor}
    for row in flow.users(tensor):
        call = flow.log.calls[row]
        if row < before and plain_name(call.function) in ("detach", "data"):
            same |= {use.tensor for use in call.outputs}
    return same


def _of_choice(case: Case, row: int, call: Call, kind: str) -> WeighedError | None:
    """The weight ``where(e > 0, q, 1 - q)``."""
    if plain_name(call.function) != "where" or not call.inputs:
        return None
    compared = _compared(case.dataflow, call.inputs[0].tensor, row)
    text = _text(case, row)
    is_last, is_first = _REST_LAST.search(text) is not None, _REST_FIRST.search(text) is not None
    if compared is None or is_last == is_first:
        return None
    error, is_above = compared
    return WeighedError(error, is_last == is_above, kind=kind)


def _of_step(case: Case, row: int, call: Call, kind: str) -> WeighedError | None:
    """The weight ``q - (e < 0)``."""
    is_difference = plain_name(call.function) == "sub" and len(call.inputs) == 1 and call.inputs[0].place != "0"
    is_reversed = call.function.endswith(("rsub", "rsub__"))
    if not (is_difference or is_reversed) or _ANY_REST.search(_text(case, row)):
        return None
    q = number_of(call, "0", "1", "other", missing=_HALF)
    compared = _compared(case.dataflow, call.inputs[0].tensor, row)
    if compared is None or compared[1] or not 0 < q < 1 or q == _HALF:
        return None
    return WeighedError(compared[0], True, q, 1 - q, kind)


def _compared(flow: Dataflow, tensor: int, before: int) -> tuple[int, bool] | None:
    """What a condition compares with 0, and whether it is true above 0."""
    made = value_maker(flow, tensor, before, through=frozenset({"double", "int", "long"}))
    name = "" if made is None else plain_name(made[1].function)
    if made is None or name not in _COMPARISONS or len(made[1].inputs) != 1:
        return None
    number = number_of(made[1], "1", "other", missing=1.0)
    return (made[1].inputs[0].tensor, _COMPARISONS[name]) if number == 0 else None


_COMPARISONS = {
    "gt": True, "ge": True, "greater": True, "greater_equal": True, "lt": False, "le": False, "less": False,
    "less_equal": False,
}  # fmt: skip


def _text(case: Case, row: int) -> str:
    return case.source_line(location_of_call(case.dataflow, row)) or ""
