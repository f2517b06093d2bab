"""Scores from which the logarithm of the cumulative sum of their exponentials is subtracted: the risk sets of Cox."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, TensorUse


class RiskSet(Struct, frozen=True):
    """Scores that are compared with the cumulative sum of their exponentials."""

    compared: int
    """The call that subtracts, or divides."""
    summed: int
    """The call that sums."""


def risk_sets(flow: Dataflow) -> Iterator[RiskSet]:
    """All of them that a step follows."""
    for row, call in enumerate(flow.log.calls):
        is_compared = plain_name(call.function) in ("sub", "div") and len(call.live_inputs) == _BOTH
        if is_compared and call.kind == "operation" and flow.has_step_after(row):
            summed = _summed(flow, row)
            if summed is not None:
                yield RiskSet(row, summed)


def indicators(flow: Dataflow, row: int) -> list[tuple[int, int]]:
    """Tensors of zeros and ones with which differences are weighed, or by which they are selected; and where."""
    waiting = [(flow.log.calls[row].outputs[0].tensor, row)]
    for _ in range(MAX_MAKERS):
        if not waiting:
            return []
        given, after = waiting.pop()
        for user in flow.users(given, after):
            call = flow.log.calls[user]
            name = plain_name(call.function)
            others = [use for use in call.inputs if use.tensor != given and not use.requires_grad]
            if name in ("mul", "getitem", "masked_select", "where", "dot") and others:
                return [(use.tensor, user) for use in others if _is_indicator(flow, use.tensor, user)]
            if name in ("neg", "log", "squeeze", "view", "reshape", "flip") and call.outputs:
                waiting.append((call.outputs[0].tensor, user))
    return []


def index_of(call: Call) -> int | None:
    """The only tensor by which a call takes rows."""
    index = [use for use in call.inputs[1:] if use.place in ("1", "1[0]", "2", "index", "indices")]
    return index[0].tensor if plain_name(call.function) in _TAKE and len(call.inputs) == _BOTH and index else None


_BOTH = 2
MAX_MAKERS = 8
_SCALE = frozenset({"add", "sub", "log", "clamp", "clamp_min", "squeeze", "view", "reshape", "flip", "unsqueeze"})
_SUMS = frozenset({"cumsum", "logcumsumexp"})
_TAKE = frozenset({"getitem", "index_select", "gather", "take_along_dim", "take"})


def _summed(flow: Dataflow, row: int) -> int | None:
    """The cumulative sum, if one of two operands is the logarithm of one over the samples."""
    call = flow.log.calls[row]
    for use in call.inputs:
        names = set[str]()
        for made, maker in flow.makers(use.tensor, row, MAX_MAKERS):
            name = plain_name(maker.function)
            if name in _SUMS or triangle_of_ones(flow, made, maker):
                is_log = name == "logcumsumexp" or "log" in names or plain_name(call.function) == "div"
                return made if is_log and _is_over_samples(flow, maker) else None
            if name not in _SCALE:
                break
            names.add(name)
    return None


def triangle_of_ones(flow: Dataflow, row: int, call: Call) -> str:
    """``tril`` or ``triu`` for a product of such a triangle of ones with a vector; empty for other calls.

    It adds up what is before each element, or what is behind it.
    """
    if (
        plain_name(call.function) not in ("mv", "matmul", "mm")
        or len(call.inputs) != _BOTH
        or call.inputs[0].requires_grad
    ):
        return ""
    for made, maker in flow.makers(call.inputs[0].tensor, row, MAX_MAKERS):
        name = plain_name(maker.function)
        if name in ("tril", "triu"):
            values = flow.values_of(maker.inputs[0], made)
            is_of_ones = values is not None and values.minimum == values.maximum == 1
            return name if is_of_ones and not maker.scalars.get("diagonal", maker.scalars.get("1", 0)) else ""
        if name in ("T", "t", "mT", "transpose"):
            break
        if name not in ("float", "to", "double", "type_as", "detach"):
            break
    return ""


def summed_values(call: Call) -> TensorUse:
    """What a cumulative sum adds up; of a product with a triangle, the vector."""
    return next(iter(call.live_inputs), call.inputs[0])


def _is_over_samples(flow: Dataflow, call: Call) -> bool:
    shape = shape_of(flow, summed_values(call).tensor)
    if plain_name(call.function) not in _SUMS:
        return shape[1:] in ((), (1,))
    return shape[1:] in ((), (1,)) and axis_of(call, len(shape)) == 0


def _is_indicator(flow: Dataflow, tensor: int, row: int) -> bool:
    values = flow.values(tensor, row)
    return values is not None and (values.minimum, values.maximum) == (0, 1)
