"""Differences between values and their mean along an axis with a single element: they are 0, whatever these are. So is
what a layer or group normalization makes of a single element."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod

from msgspec import Struct

from gradviz.analysis.dataflow.axes import axes_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.formulas.means import WITH_MEANS
from gradviz.graph.call_log import Call
from gradviz.graph.model import Scalar


class Centred(Struct, frozen=True):
    """A mean of single elements, and the call that subtracts it from them."""

    mean: int
    axes: tuple[int, ...]
    difference: int
    maker: int | None
    """The call that made the values."""


def centred_alone(flow: Dataflow) -> Iterator[Centred]:
    """The last one of each line in each module at which every mean runs along a single element, in code that trains
    with it.

    Of one axis of values that need a gradient GV201 tells that it is zero.
    """
    lines: dict[tuple[Location | None, str | None], list[Centred | None]] = defaultdict(list)
    for row, call in calls_named(flow, WITH_MEANS):
        if call.inputs and call.outputs:
            lines[location_of_call(flow, row), _path(flow, call)].append(_centred(flow, row, call))
    for tried in lines.values():
        known = [each for each in tried if each is not None]
        # Rewards are often centred without gradients; but what an evaluation centres is no part of a training.
        steps = [each for each in known if flow.log.calls[each.mean].grad_mode == "enabled"] or known
        if len(steps) >= _MIN_TIMES and None not in tried and _is_trained_with(flow, steps[-1]):
            yield steps[-1]


_AROUND = frozenset({"unsqueeze", "view", "reshape", "expand", "expand_as", "detach"})
_MIN_TIMES = 2
_BOTH = 2


def _centred(flow: Dataflow, row: int, call: Call) -> Centred | None:
    value = call.inputs[0].tensor
    shape = shape_of(flow, value)
    axes = tuple(axes_of(call, len(shape)))
    is_told = len(axes) == 1 and call.inputs[0].requires_grad
    if not axes or is_told or any(shape[axis] != 1 for axis in axes) or max(shape) == 1:
        return None
    mean = call.outputs[-1].tensor
    users = flow.users(mean, row)
    if users and plain_name(flow.log.calls[users[0]].function) in _AROUND and flow.log.calls[users[0]].outputs:
        mean = flow.log.calls[users[0]].outputs[0].tensor
        users = flow.users(mean, users[0])
    apart = (each for each in users if _is_difference(flow, each, value, mean))
    difference = next(apart, None)
    return None if difference is None else Centred(row, axes, difference, flow.newest_producer(value, row))


def _path(flow: Dataflow, call: Call) -> str | None:
    return None if call.scope is None else flow.log.scopes[call.scope].path


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


# -- values that are all the same --------------------------------------------------------------------------------------


class CentredEqual(Struct, frozen=True):
    """A call that subtracts from values their mean along an axis along which they are repeated."""

    difference: int
    axis: int
    maker: int | None
    """The call that made the values."""


def centred_equal(flow: Dataflow) -> Iterator[CentredEqual]:
    """The last one of each line whose results are always only rounding, in code that trains with it."""
    lines: dict[tuple[Location | None, str | None], list[CentredEqual | None]] = defaultdict(list)
    for row, call in calls_named(flow, ("sub",)):
        if len(call.inputs) == _BOTH and call.outputs and not call.live_inputs:
            lines[location_of_call(flow, row), _path(flow, call)].append(_centred_equal(flow, row, call))
    for tried in lines.values():
        last = tried[-1]
        if last is not None and None not in tried and len(tried) > _MIN_TIMES and _is_part_of_loss(flow, last):
            yield last


_ROUNDING = 1e-5
_MAX_MAKERS = 6
_REPEATS = frozenset({"expand", "expand_as", "repeat", "repeat_interleave", "broadcast_to", "tile"})
_ADD_UP = frozenset({"mean", "sum", "nanmean", "var_mean", "std_mean"})


def _centred_equal(flow: Dataflow, row: int, call: Call) -> CentredEqual | None:
    value, mean = (use.tensor for use in call.inputs)
    shape, other = shape_of(flow, value), shape_of(flow, mean)
    short = [axis for axis, (size, one) in enumerate(zip(shape, other, strict=False)) if size > one == 1]
    given, made = flow.values_of(call.inputs[0], row), call.outputs[0].values
    if len(shape) != len(other) or len(short) != 1 or given is None or made is None:
        return None
    ends = given.minimum, given.maximum, made.minimum, made.maximum
    if None in ends or given.minimum == given.maximum or len(shape) == 1:
        return None  # of a single row, all may be the same by chance
    largest, left = (max(abs(each.minimum or 0.0), abs(each.maximum or 0.0)) for each in (given, made))
    sums = (made_by for _, made_by in flow.makers(mean, row, _MAX_MAKERS) if plain_name(made_by.function) in _ADD_UP)
    above = (plain_name(maker.function) for _, maker in flow.makers(value, row, _MAX_MAKERS))
    # Samples that come out the same have another cause, such as one seed for all.
    if left > _ROUNDING * largest or not any(sums) or _REPEATS.isdisjoint(above):
        return None
    return CentredEqual(row, short[0], flow.newest_producer(value, row))


def _is_part_of_loss(flow: Dataflow, centred: CentredEqual) -> bool:
    made = flow.log.calls[centred.difference].outputs[0].tensor
    below = flow.descendants(made, centred.difference)
    return any(flow.log.calls[each].kind == "backward" for each in below) and flow.has_step_after(centred.difference)


# -- layer and group normalization -------------------------------------------------------------------------------------


_RANK_OF_CHANNELS = 2


def layers_of_one(flow: Dataflow) -> Iterator[tuple[int, str]]:
    """The last call of each layer or group normalization that always has one value to normalize, in code that trains
    with it; with the words for what it normalizes over."""
    layers: dict[tuple[int | None, str | None], list[tuple[int, str | None]]] = defaultdict(list)
    for row, call in calls_named(flow, ("layer_norm", "group_norm")):
        if call.inputs and call.outputs:
            layers[call.call_site, _path(flow, call)].append((row, _axes_of_one(flow, call)))
    for tried in layers.values():
        row, axes = tried[-1]
        trained = [each for each, _ in tried if flow.has_step_after(each)]
        if axes is None or len(trained) < _MIN_TIMES or any(words is None for _, words in tried):
            continue
        below = flow.descendants(flow.log.calls[trained[-1]].outputs[0].tensor, trained[-1])
        if any(flow.log.calls[each].kind == "backward" for each in below):
            yield trained[-1], axes


def _axes_of_one(flow: Dataflow, call: Call) -> str | None:
    """What a normalization takes the mean over, if that is one value of many; otherwise None."""
    shape = shape_of(flow, call.inputs[0].tensor)
    if prod(shape) == 1:
        return None
    if plain_name(call.function) == "layer_norm":
        sizes = _sizes_of_layer(flow, call)
        if not sizes or any(size != 1 for size in sizes):
            return None
        return "the last axis, which has one element" if len(sizes) == 1 else "the last axes, which have one element"
    groups = call.scalars.get("1", call.scalars.get("num_groups"))
    if len(shape) < _RANK_OF_CHANNELS or type(groups) is not int or groups != prod(shape[1:]):
        return None
    return f"{groups} groups, each of one element"


def _sizes_of_layer(flow: Dataflow, call: Call) -> tuple[Scalar, ...]:
    """The axes that a `layer_norm` is told; where that is not recorded, as of ``x.shape[-1:]``, what shows them."""
    told = tuple(size for place, size in call.scalars.items() if place.startswith(("1[", "normalized_shape[")))
    weight = next((use.tensor for use in call.inputs if use.place in ("2", "weight")), None)
    values = call.outputs[0].values
    if told:
        return told
    if weight is not None:
        return shape_of(flow, weight)
    is_zero = values is not None and values.count == values.zeros
    return shape_of(flow, call.inputs[0].tensor)[-1:] if is_zero else ()
