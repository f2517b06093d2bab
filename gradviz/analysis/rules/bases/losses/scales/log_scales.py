"""Logarithms of scales that are summed up for each sample, and the samples that the scales are multiplied with."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.graph.call_log import Call

_MAX_MAKERS = 8
_MOST_USERS = 12
_SIZES = 2
_SAME = SHAPE_ONLY | {"neg"}


class LogScaleSum(Struct, frozen=True):
    """A sum of logarithms over the variables of each sample: the log-determinant of one layer of a flow."""

    row: int
    variables: int
    applied: tuple[int, ...]
    """The products of samples with the exponentials of these logarithms."""


def log_scale_sums(flow: Dataflow) -> Iterator[LogScaleSum]:
    """Those that training may use, in order."""
    for row, call in calls_named(flow, ("sum",)):
        if not call.live_inputs or not call.outputs or not flow.has_step_after(row):
            continue
        shape, made = (shape_of(flow, use.tensor) for use in (call.inputs[0], call.outputs[0]))
        applied = _products_of_exponential(flow, row, call) if len(shape) == _SIZES and made == shape[:1] else ()
        if applied:
            yield LogScaleSum(row, shape[1], tuple(applied))


def _products_of_exponential(flow: Dataflow, row: int, call: Call) -> list[int]:
    found, shape = list[int](), shape_of(flow, call.inputs[0].tensor)
    for source in _sources(flow, call.inputs[0].tensor, row):
        for exponential in _exponentials(flow, source):
            result = flow.log.calls[exponential].outputs[0].tensor
            users = flow.users(result, exponential)[:_MOST_USERS]
            found += [user for user in users if _is_product(flow, flow.log.calls[user], result, shape)]
    return found


def _is_product(flow: Dataflow, call: Call, factor: int, shape: tuple[int, ...]) -> bool:
    others = [use.tensor for use in call.inputs if use.tensor != factor]
    is_product = plain_name(call.function) in ("mul", "div", "addcmul") and bool(call.outputs)
    return is_product and any(shape_of(flow, each) == shape for each in others)


def _sources(flow: Dataflow, tensor: int, row: int) -> Iterator[int]:
    """A tensor, and what it was before its sign or its shape was changed or a mask was put on it."""
    yield tensor
    for _, call in flow.makers(tensor, row, _MAX_MAKERS):
        is_masked = plain_name(call.function) == "mul" and len(call.live_inputs) == 1
        if (plain_name(call.function) not in _SAME and not is_masked) or not call.live_inputs:
            return
        yield call.live_inputs[0].tensor


def _exponentials(flow: Dataflow, tensor: int) -> Iterator[int]:
    for user in flow.users(tensor)[:_MOST_USERS]:
        call = flow.log.calls[user]
        name = plain_name(call.function)
        if name == "exp" and call.outputs:
            yield user
        elif name == "neg" and call.outputs:
            below = flow.users(call.outputs[0].tensor, user)[:_MOST_USERS]
            yield from (each for each in below if plain_name(flow.log.calls[each].function) == "exp")
