"""Differences between values and their mean along an axis with a single element: they are 0, whatever these are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location
from gradviz.graph.call_log import Call


class Centred(Struct, frozen=True):
    """A mean of single elements, and the call that subtracts it from them."""

    mean: int
    axis: int
    difference: int
    maker: int | None
    """The call that made the values."""


def centred_alone(flow: Dataflow) -> Iterator[Centred]:
    """The last one of each line at which every mean runs along a single element, in code that trains with it."""
    lines: dict[Location | None, list[Centred | None]] = defaultdict(list)
    for row, call in enumerate(flow.log.calls):
        if plain_name(call.function) in _MEANS and call.inputs and call.outputs:
            lines[location_of_call(flow, row)].append(_centred(flow, row, call))
    for tried in lines.values():
        last = tried[-1]
        if len(tried) >= _MIN_TIMES and last is not None and None not in tried and _is_trained_with(flow, last):
            yield last


_MEANS = frozenset({"mean", "var_mean", "std_mean"})
_AROUND = frozenset({"unsqueeze", "view", "reshape", "expand", "expand_as", "detach"})
_MIN_TIMES = 2
_BOTH = 2


def _centred(flow: Dataflow, row: int, call: Call) -> Centred | None:
    value = call.inputs[0].tensor
    shape = shape_of(flow, value)
    axis = axis_of(call, len(shape))
    if axis is None or shape[axis] != 1 or max(shape) == 1:
        return None
    mean = call.outputs[-1].tensor
    users = flow.users(mean, row)
    if users and plain_name(flow.log.calls[users[0]].function) in _AROUND and flow.log.calls[users[0]].outputs:
        mean = flow.log.calls[users[0]].outputs[0].tensor
        users = flow.users(mean, users[0])
    apart = (each for each in users if _is_difference(flow, each, value, mean))
    difference = next(apart, None)
    return None if difference is None else Centred(row, axis, difference, flow.newest_producer(value, row))


def _is_difference(flow: Dataflow, row: int, value: int, mean: int) -> bool:
    call = flow.log.calls[row]
    return (
        plain_name(call.function) == "sub"
        and len(call.inputs) == _BOTH
        and {use.tensor for use in call.inputs} == {value, mean}
        and shape_of(flow, value) == shape_of(flow, mean)
    )


def _is_trained_with(flow: Dataflow, centred: Centred) -> bool:
    """Whether a backward call starts from something that was computed from the difference, before a step."""
    made = flow.log.calls[centred.difference].outputs
    below = flow.descendants(made[0].tensor, centred.difference) if made else ()
    return any(flow.log.calls[each].kind == "backward" for each in below) and flow.has_step_after(centred.difference)
