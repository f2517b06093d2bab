"""Calls that average over the positions of sequences, padding and all."""

from __future__ import annotations

from math import isclose

from gradviz.analysis.dataflow.axes import axis_of, summed_by_einsum
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.divided_later import is_divided_later
from gradviz.analysis.rules.bases.losses.signed_terms import number_of
from gradviz.graph.call_log import Call

_BOTH = 2
_AXES = 3


def averages_bag(flow: Dataflow, row: int) -> bool:
    """Whether a call looks up rows of ids and averages each row: without weights, and with no id that is left out."""
    call = flow.log.calls[row]
    has_weights = len(call.inputs) > _BOTH
    has_index = call.scalars.get("padding_idx") is not None
    return call.scalars.get("mode", "mean") == "mean" and not (
        has_weights or has_index or is_divided_later(flow, row, call)
    )


def averages_positions(flow: Dataflow, row: int, tensor: int, axis: int) -> bool:
    """Whether a call averages over the positions, and nothing divides by their number later."""
    call = flow.log.calls[row]
    name, shape = plain_name(call.function), shape_of(flow, tensor)
    if not call.outputs or not call.outputs[0].requires_grad:
        return False
    if name == "mean":
        return axis_of(call, _AXES, _place_of_axis(call)) == axis and not is_divided_later(flow, row, call)
    if name == "adaptive_avg_pool1d":
        return axis == _AXES - 1 and shape_of(flow, call.outputs[0].tensor)[-1:] == (1,)
    if name == "avg_pool1d":
        return axis == _AXES - 1 and shape_of(flow, call.outputs[0].tensor)[-1:] == (1,) and shape[-1] > 1
    is_sum = name == "sum" and axis_of(call, _AXES, _place_of_axis(call)) == axis
    is_einsum = name == "einsum" and len(call.inputs) == 1
    if is_sum or (is_einsum and summed_by_einsum(call, call.inputs[0], len(shape)) == frozenset({axis})):
        users = [flow.log.calls[user] for user in flow.users(call.outputs[0].tensor, row)]
        return len(users) == 1 and _divides_by(users[0], shape[axis])
    return False


def _divides_by(call: Call, count: int) -> bool:
    """Whether a call divides by a number, or multiplies with one over it."""
    name, number = plain_name(call.function), number_of(call, "1", "other", "0", missing=0.0)
    return (name == "div" and number == count) or (name == "mul" and isclose(number * count, 1, rel_tol=1e-6))


def _place_of_axis(call: Call) -> str:
    """Where an axis is given: alone, or as the only one of a list."""
    lists = [place for place in call.scalars if place in ("1[0]", "dim[0]")]
    return lists[0] if len(lists) == 1 and f"{lists[0][:-3]}[1]" not in call.scalars else "1"
