"""Levels of quantiles that lie along the axis of the targets, in errors that have an axis for each of both.

All quantiles that are predicted for a target are fitted to that one number. So targets are the same along the axis of
the levels. Where they are the same along another axis of the predictions instead, and vary along that of the levels,
each level meets one target only. It does not raise where both axes have the same size.
"""

from __future__ import annotations

import re

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, value_maker
from gradviz.graph.call_log import Call, TensorUse


class CrossedTargets(Struct, frozen=True):
    """Errors whose targets vary along the levels of the quantiles."""

    call: int
    """The difference of predictions and targets."""
    shape: Shape
    levels: int
    """The axis along which both the levels and the targets vary."""
    same: int
    """The axis along which the predictions vary, but neither the levels nor the targets."""
    prediction: int
    target: int


_BOTH = 2
_RANK = 3
_MAX_MAKERS = 16
_JOINS = frozenset({"stack", "cat", "concat", "concatenate"})
_COPIES = frozenset({"expand", "expand_as", "repeat", "tile", "broadcast_to", "repeat_interleave"})
_COMPARES = frozenset({"ge", "gt", "le", "lt", "greater_equal", "greater", "less_equal", "less", "sub"})
_ELLIPSIS = re.compile(r"\[\s*\.\.\.\s*,\s*[^,\]]+\]")


def crossed_targets(flow: Dataflow, row: int, level: TensorUse) -> CrossedTargets | None:
    """What a difference of predictions and targets is, if the levels lie along the axis of the targets."""
    call = flow.log.calls[row]
    if len(call.inputs) != _BOTH or len(call.live_inputs) != 1 or not call.outputs:
        return None
    live, dead = call.live_inputs[0], next(use for use in call.inputs if not use.requires_grad)
    shape = shape_of(flow, call.outputs[0].tensor)
    if len(shape) < _RANK or shape_of(flow, live.tensor) != shape:
        return None
    targets, levels = shape_before_copies(flow, dead.tensor, row, len(shape)), _padded(flow, level.tensor, len(shape))
    inner = range(1, len(shape))
    both = [axis for axis in inner if targets[axis] == shape[axis] > 1 and levels[axis] > 1]
    same = [axis for axis in inner if targets[axis] == 1 < shape[axis]]
    if len(both) != 1 or len(same) != 1 or shape[both[0]] != shape[same[0]] or levels[same[0]] != 1:
        return None
    is_of_data = not _is_computed_by_layers(flow, dead.tensor, row)
    found = CrossedTargets(row, shape, both[0], same[0], live.tensor, dead.tensor)
    return found if is_of_data and not _is_of_members(flow, found) else None


def shape_before_copies(flow: Dataflow, tensor: int, row: int, rank: int) -> Shape:
    """The shape of a tensor before it was expanded, with as many axes as the result."""
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    name = "" if call is None else plain_name(call.function)
    if call is not None and name in _COPIES and call.inputs:
        tensor = call.inputs[0].tensor
    elif call is not None and name == "broadcast_tensors" and len(call.inputs) == len(call.outputs):
        index = next((index for index, use in enumerate(call.outputs) if use.tensor == tensor), 0)
        tensor = call.inputs[index].tensor
    elif call is not None and name == "stack" and len({use.tensor for use in call.inputs}) == 1:
        shape = shape_of(flow, tensor)
        axis = _joined_axis(call, len(shape))
        return (1,) * (rank - len(shape)) + (*shape[:axis], 1, *shape[axis + 1 :])
    return _padded(flow, tensor, rank)


def axis_of_quantiles(case: Case, found: CrossedTargets) -> int | None:
    """The axis along which the predictions have their quantiles: one quantile is compared with all targets elsewhere,
    or each has a layer of its own. None where nothing tells it."""
    flow = case.dataflow
    layer = _layer_behind(flow, found.prediction, found.call)
    if _has_layer_for_each_level(flow, found):
        return found.levels
    axes = set[int]()
    for row, call in calls_named(flow, frozenset({"getitem", "select", "unbind"})):
        rank = len(shape_of(flow, call.inputs[0].tensor)) if call.inputs else 0
        axis = _read_axis(case, row, call, rank) if rank == len(found.shape) else None
        if axis is not None and layer is not None and _layer_behind(flow, call.inputs[0].tensor, row) == layer:
            axes |= {axis for use in call.outputs if _meets_all_targets(flow, use.tensor, row)}
    return next(iter(axes)) if len(axes) == 1 and axes <= {found.levels, found.same} else None


def _read_axis(case: Case, row: int, call: Call, rank: int) -> int | None:
    """The axis of which a call reads one element."""
    if plain_name(call.function) != "getitem":
        return axis_of(call, rank) or 0  # unbind() takes the first one where none is given
    if len(call.scalars) != 1 or len(shape_of(case.dataflow, call.outputs[0].tensor)) != rank - 1:
        return None
    place = next(iter(call.scalars))
    text = case.source_line(location_of_call(case.dataflow, row)) or ""
    if "..." in text:
        return rank - 1 if _ELLIPSIS.search(text) else None
    number = place.removeprefix("1[").removesuffix("]")
    return int(number) if number.isdigit() and place != number else None


def _meets_all_targets(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether what was read of the predictions is compared with values of the same shape that no layer computed, and
    of which no element was read."""
    shape = shape_of(flow, tensor)
    for user in flow.users(tensor, row):
        call = flow.log.calls[user]
        if plain_name(call.function) not in _COMPARES or len(call.inputs) != _BOTH:
            continue
        other = next((use.tensor for use in call.inputs if use.tensor != tensor), tensor)
        made = flow.newest_producer(other, user)
        is_part = made is not None and plain_name(flow.log.calls[made].function) in ("getitem", "select", "unbind")
        if shape_of(flow, other) == shape and not is_part and not _is_computed_by_layers(flow, other, user):
            return True
    return False


def _is_computed_by_layers(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a trained tensor was used for it, as for the quantiles of a teacher."""
    maker = value_maker(flow, tensor, row)  # not expand_as(), which takes the predictions
    made = () if maker is None else flow.ancestors(maker[1].outputs[0].tensor, maker[0] + 1, flow.step_before(row))
    given = (use for each in made for use in flow.log.calls[each].inputs)
    return any(use.requires_grad or _is_parameter(flow, use) for use in given)


def _is_of_members(flow: Dataflow, found: CrossedTargets) -> bool:
    """Whether the predictions may be those of several members, of which each predicts all targets, with a level for
    each target: results of different layers side by side, or of a layer with a matrix for each member."""
    for _, call in flow.makers(found.prediction, found.call, _MAX_MAKERS):
        name = plain_name(call.function)
        if name in _JOINS and len(call.live_inputs) > 1:
            return not _has_layer_for_each_level(flow, found) and not _is_of_one_layer(flow, found)
        weights = [shape_of(flow, use.tensor) for use in call.live_inputs if _is_parameter(flow, use)]
        if any(len(shape) == _RANK for shape in weights) and "conv" not in name:
            return True
        if weights:
            break
    return False


def _is_of_one_layer(flow: Dataflow, found: CrossedTargets) -> bool:
    """Whether all results that were joined come from one layer, as those of a decoder do, turn by turn."""
    joins = ((row, call) for row, call in flow.makers(found.prediction, found.call, _MAX_MAKERS)
             if plain_name(call.function) in _JOINS and len(call.live_inputs) > 1)  # fmt: skip
    row, call = next(joins, (0, None))
    layers = set[int | None]() if call is None else {_layer_behind(flow, use.tensor, row) for use in call.inputs}
    return len(layers) == 1 and None not in layers


def _has_layer_for_each_level(flow: Dataflow, found: CrossedTargets) -> bool:
    """Whether the predictions are results of different layers side by side, one for each level."""
    row = flow.newest_producer(found.prediction, found.call)
    call = None if row is None else flow.log.calls[row]
    if row is None or call is None or plain_name(call.function) not in _JOINS:
        return False
    layers = {_layer_behind(flow, use.tensor, row) for use in call.inputs} - {None}
    return _joined_axis(call, len(found.shape)) == found.levels and len(layers) == found.shape[found.levels]


def _layer_behind(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The parameter that was used last of all for a tensor."""
    made = (call for _, call in flow.makers(tensor, row, _MAX_MAKERS))
    return next((use.tensor for call in made for use in call.inputs if _is_parameter(flow, use)), None)


def _joined_axis(call: Call, rank: int) -> int:
    return axis_of(call, rank) or 0


def _is_parameter(flow: Dataflow, use: TensorUse) -> bool:
    return flow.log.tensors[use.tensor].role == "parameter"


def _padded(flow: Dataflow, tensor: int, rank: int) -> Shape:
    shape = shape_of(flow, tensor)
    return (1,) * (rank - len(shape)) + shape


def line_of_axis(flow: Dataflow, tensor: int, row: int) -> int:
    """The call that gave a tensor its axes; else the one that takes it."""
    found = row
    for made, call in flow.makers(tensor, row, _MAX_MAKERS):
        if plain_name(call.function) not in SHAPE_ONLY | _COPIES or len(call.inputs) != 1:
            break
        found = made
        if len(shape_of(flow, call.inputs[0].tensor)) != len(shape_of(flow, call.outputs[0].tensor)):
            return made
    return found
