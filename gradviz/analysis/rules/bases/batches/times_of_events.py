"""Likelihoods of times until an event: ``rate * time - rate.log()`` of an exponential distribution, and that of Cox."""

from __future__ import annotations

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, tensor_before, value_maker
from gradviz.graph.call_log import TensorUse

_BOTH = 2
_PASSED = SHAPE_ONLY | {"neg"}
_RISK = frozenset({"logcumsumexp"})


def event_counted_for_all(flow: Dataflow, rows: range, size: int) -> int | None:
    """The call that puts the two terms of such a likelihood together for all samples, without saying of which of them
    the event was seen."""
    for row in rows:
        call = flow.log.calls[row]
        if plain_name(call.function) not in ("sub", "add") or len(call.live_inputs) != _BOTH:
            continue
        if shape_of(flow, call.outputs[0].tensor)[:1] != (size,):
            continue
        for one, other in (call.inputs, call.inputs[::-1]):
            if _is_rate_times_data(flow, one, other, row) or _is_risk(flow, one, other, row):
                return row
    return None


def _is_rate_times_data(flow: Dataflow, product: TensorUse, logarithm: TensorUse, row: int) -> bool:
    """Whether one of two is a rate times data, and the other one the logarithm of the rate itself."""
    made = value_maker(flow, product.tensor, row, through=frozenset({"neg"}))
    if made is None or plain_name(made[1].function) != "mul" or len(made[1].inputs) != _BOTH:
        return False
    live, dead = made[1].live_inputs, [use for use in made[1].inputs if not use.requires_grad]
    if len(live) != 1 or len(dead) != 1:
        return False
    rate = tensor_before(flow, live[0].tensor, made[0], _PASSED)
    number = tensor_before(flow, logarithm.tensor, row, _PASSED)
    below, above = value_maker(flow, rate, made[0]), value_maker(flow, number, row)
    if below is not None and plain_name(below[1].function) == "exp":
        return tensor_before(flow, below[1].inputs[0].tensor, below[0], _PASSED) == number
    is_logarithm = above is not None and plain_name(above[1].function) == "log"
    return (
        above is not None and is_logarithm and tensor_before(flow, above[1].inputs[0].tensor, above[0], _PASSED) == rate
    )


def _is_risk(flow: Dataflow, sums: TensorUse, score: TensorUse, row: int) -> bool:
    """Whether one of two is the logarithm of the sum over all who are still at risk, and the other one the score."""
    made = value_maker(flow, sums.tensor, row, through=frozenset({"neg", "flip"}))
    if made is None or plain_name(made[1].function) not in _RISK:
        return False
    passed = _PASSED | {"flip"}
    summed = tensor_before(flow, made[1].inputs[0].tensor, made[0], passed)
    return summed == tensor_before(flow, score.tensor, row, passed)
