"""Which time steps a program reads of a sequence: through flips, slices, views, and calls on each element."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from gradviz.analysis.dataflow.axes import axis_of, moved_axes
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, TensorUse


class StepsRead(Struct, frozen=True):
    """One read."""

    row: int
    steps: frozenset[int]


class _Series(Struct, frozen=True):
    """A tensor with time steps of the sequence."""

    tensor: int
    after: int
    axis: int
    steps: tuple[int, ...]
    """For each position along the axis, the time step that is there."""


_PLACE = re.compile(r"(?:1|2)(?:\[(\d+)\])?(?:\.(start|stop|step))?$")
_SPLITS = frozenset({"unbind", "split", "chunk", "tensor_split"})
_EACH = frozenset({"layer_norm", "tanh", "sigmoid", "gelu", "silu", "leaky_relu", "detach", "rms_norm", "elu"})
_MAX_FOLLOWED = 24
_WITH_INDEX = 2


def steps_read(flow: Dataflow, use: TensorUse, users: list[int], axis: int, until: int) -> list[StepsRead]:
    """What these users of a sequence read of it, on the way to the call `until`."""
    size = shape_of(flow, use.tensor)[axis]
    found: list[StepsRead] = []
    start = _Series(use.tensor, 0, axis, tuple(range(size)))
    waiting = [(start, user) for user in users]
    while waiting and len(found) < _MAX_FOLLOWED:
        series, user = waiting.pop()
        following = [each for each in _following(flow, series, user) if each is not None]
        if not following:
            found.append(StepsRead(user, frozenset(series.steps)))
        for each in following:
            if len(each.steps) == 1:
                found.append(StepsRead(user, frozenset(each.steps)))
            else:
                waiting += [(each, later) for later in _users(flow, each, until)]
    return found


def _users(flow: Dataflow, series: _Series, until: int) -> list[int]:
    """The calls that use a tensor and lead to the backward."""
    return [
        user
        for user in flow.users(series.tensor, series.after)
        if user < until
        and flow.log.calls[user].outputs
        and until in flow.descendants(flow.log.calls[user].outputs[0].tensor, user, until + 1, live=True)
    ]


def _following(flow: Dataflow, series: _Series, row: int) -> list[_Series | None]:
    """The tensors in which a call passes time steps on; none where it reads all of them."""
    call = flow.log.calls[row]
    name, shape = plain_name(call.function), shape_of(flow, series.tensor)
    if len(call.inputs) == 1 and name in _SPLITS:
        return _split(flow, call, series, row, shape)
    if len(call.inputs) == 1 and name in ("getitem", "select", "narrow", "flip"):
        return [_picked(flow, call, series, row, shape)]
    index = _index_along(flow, call, name, series, shape)
    if index is not None:
        values = flow.values_of(index, row)
        if values is None or values.minimum is None or values.minimum != values.maximum:
            return []
        position = int(values.minimum)
        is_inside = -len(series.steps) <= position < len(series.steps)
        step = series.steps[position] if is_inside else series.steps[-1]
        return [_Series(call.outputs[0].tensor, row, series.axis, (step,))]
    axes = tuple(range(len(shape)))
    output = call.outputs[0].tensor
    is_same = name in _EACH and shape_of(flow, output) == shape
    moved = axes if is_same else moved_axes(flow, call, name, axes, output)
    if moved is None or series.axis not in moved or name in ("view", "reshape", "flatten", "where"):
        return []
    axis = moved.index(series.axis)
    is_kept = shape_of(flow, output)[axis] == len(series.steps)
    return [_Series(output, row, axis, series.steps)] if is_kept else []


def _index_along(flow: Dataflow, call: Call, name: str, series: _Series, shape: tuple[int, ...]) -> TensorUse | None:
    """The tensor of positions that a call takes along the axis of the time steps, one for each sample."""
    if call.inputs[0].tensor != series.tensor or len(call.inputs) < _WITH_INDEX:
        return None
    if name == "index_select":
        return call.inputs[1] if axis_of(call, len(shape)) == series.axis else None
    if name in ("gather", "take_along_dim"):
        index = shape_of(flow, call.inputs[1].tensor)
        is_of_one = len(index) == len(shape) and index[series.axis] == 1
        axis = axis_of(call, len(shape), "2" if name == "take_along_dim" else "1")
        return call.inputs[1] if is_of_one and axis == series.axis else None
    if name == "getitem":  # out[torch.arange(n), last]
        return next((use for use in call.inputs[1:] if use.place == f"1[{series.axis}]"), None)
    return None


def _split(flow: Dataflow, call: Call, series: _Series, row: int, shape: tuple[int, ...]) -> list[_Series | None]:
    """The parts of a sequence that something uses."""
    axis = axis_of(call, len(shape), "1" if plain_name(call.function) == "unbind" else "2")
    if (axis or 0) != series.axis:
        return []
    found, first = list[_Series | None](), 0
    for use in call.outputs:
        part = shape_of(flow, use.tensor)
        count = 1 if len(part) < len(shape) else part[series.axis]
        if flow.users(use.tensor, row):
            found.append(_Series(use.tensor, row, series.axis, series.steps[first : first + count]))
        first += count
    return found


def _picked(flow: Dataflow, call: Call, series: _Series, row: int, shape: tuple[int, ...]) -> _Series | None:
    name, output = plain_name(call.function), call.outputs[0].tensor
    if name == "flip":
        is_turned = series.axis in [axis % len(shape) for axis in _integers(call, "1", "dims")]
        return _Series(output, row, series.axis, series.steps[:: -1 if is_turned else 1])
    if name == "getitem":
        return _indexed(flow, call, series, row, shape)
    axis, start = axis_of(call, len(shape)), next(iter(_integers(call, "2", "index", "start")), None)
    if axis is None or start is None:
        return None
    if axis != series.axis:
        moved = series.axis - (name == "select" and axis < series.axis)
        return _Series(output, row, moved, series.steps)
    start %= len(series.steps)
    count = 1 if name == "select" else shape_of(flow, output)[axis]
    return _Series(output, row, axis, series.steps[start : start + count])


def _integers(call: Call, *names: str) -> list[int]:
    return [value for place, value in call.scalars.items() if type(value) is int and place.partition("[")[0] in names]


def _indexed(flow: Dataflow, call: Call, series: _Series, row: int, shape: tuple[int, ...]) -> _Series | None:
    """``out[:, -1]``, ``out[1:]``, as far as the shape of the result says the same."""
    items: dict[int, dict[str, int]] = {}
    for place, value in call.scalars.items():
        found = _PLACE.match(place)
        if found is None or type(value) is not int:
            return None
        items.setdefault(int(found[1] or 0), {})[found[2] or "at"] = value
    left, axis, steps = list[int](), 0, series.steps
    for number, size in enumerate(shape):
        item = items.get(number, {})
        kept: Sequence[int] = range(size)
        if "at" in item:
            kept = kept[item["at"] :][:1] if item["at"] != -1 else kept[-1:]
        else:
            kept = kept[item.get("start") : item.get("stop") : item.get("step")]
        if number == series.axis:
            axis, steps = len(left), tuple(series.steps[each] for each in kept)
        left += [] if "at" in item else [len(kept)]
    output = call.outputs[0].tensor
    return _Series(output, row, axis, steps) if tuple(left) == shape_of(flow, output) and steps else None
