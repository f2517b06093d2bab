"""Targets of cross entropies that are meant as probabilities of classes, and cannot add up to 1.

>>> least_and_most(0.1, 1.0, 10)
(1.9, 9.1)
"""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import tensor_before, value_maker
from gradviz.graph.call_log import Call, TensorUse

NOT_ADDED_UP_WHY = (
    "a softmax shares 1 between all classes: with other sums the loss weighs samples, and pulls towards other shares "
    "than were meant"
)
NOT_ADDED_UP_FIX = "smooth labels so that they add up to 1: t * (1 - e) + e / classes"


def least_and_most(lowest: float, highest: float, classes: int) -> tuple[float, float]:
    """The least sum of the sample with the highest value, and the most of the one with the lowest."""
    return (classes - 1) * lowest + highest, (classes - 1) * highest + lowest


def cannot_add_up(lowest: float, highest: float, classes: int) -> bool:
    """Whether some targets without zeros add up to more or less than 1, whatever values they have in between."""
    if lowest <= 0 or classes < _TWO:
        return False
    least, most = least_and_most(lowest, highest, classes)
    return least > 1 + _SLACK or most < 1 - _SLACK


_TWO = 2
_SLACK = 0.02


def is_smoothed(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether targets are a sigmoid, or were made of labels with numbers, and no weights are multiplied with them."""
    made = value_maker(flow, tensor, row, through=frozenset({"clone", "detach"}))
    if made is not None and plain_name(made[1].function) == "sigmoid":
        return True
    if made is None or plain_name(made[1].function) not in _SMOOTH:
        return False
    since, is_of_labels = flow.step_before(made[0]), False
    for each in (*flow.ancestors(tensor, made[0] + 1, since), made[0]):
        call = flow.log.calls[each]
        if plain_name(call.function) in _WEIGH and len(call.inputs) > 1:
            return False
        is_of_labels |= plain_name(call.function) in _LABELS
    return is_of_labels


_SMOOTH = frozenset({"add", "sub", "where", "scatter", "masked_fill", "setitem", "clamp", "clip", "clamp_min"})
_WEIGH = frozenset({"mul", "div", "lerp"})
_LABELS = frozenset({"one_hot", "scatter", "eye", "softmax", "where", "setitem"})


def sums_by_hand(flow: Dataflow) -> Iterator[tuple[int, TensorUse, int]]:
    """The products of targets with log-probabilities that are summed over the classes, with targets and classes."""
    for row, call in calls_named(flow, ("mul",)):
        if len(call.inputs) != _TWO or not flow.has_step_after(row):
            continue
        for scores, target in (call.inputs, call.inputs[::-1]):
            shape = shape_of(flow, scores.tensor)
            if not scores.requires_grad or target.requires_grad or shape_of(flow, target.tensor) != shape:
                continue
            axis = _axis_of_classes(flow, scores.tensor, row)
            if axis is not None and _is_summed_over(flow, call, row, axis, len(shape)):
                yield row, target, shape[axis]


_NEGATED = frozenset({"neg", "negative"})


def _axis_of_classes(flow: Dataflow, tensor: int, row: int) -> int | None:
    plain = tensor_before(flow, tensor, row, _NEGATED)
    made = flow.newest_producer(plain, row)
    call = None if made is None else flow.log.calls[made]
    if made is not None and call is not None and plain_name(call.function) == "log":
        inner = tensor_before(flow, call.inputs[0].tensor, made, frozenset({"add", "clamp", "clamp_min"}))
        made = flow.newest_producer(inner, made)
        call = None if made is None else flow.log.calls[made]
    if call is None or plain_name(call.function) not in ("log_softmax", "softmax"):
        return None
    return axis_of(call, len(shape_of(flow, tensor)))


def _is_summed_over(flow: Dataflow, call: Call, row: int, axis: int, rank: int) -> bool:
    users = [(user, flow.log.calls[user]) for user in flow.users(call.outputs[0].tensor, row)]
    turned = [(user, used) for user, used in users if plain_name(used.function) in _NEGATED and used.outputs]
    for user, used in turned:
        users += [(each, flow.log.calls[each]) for each in flow.users(used.outputs[0].tensor, user)]
    return any(plain_name(used.function) == "sum" and axis_of(used, rank) == axis for _, used in users)


def plain_targets(flow: Dataflow, target: TensorUse, row: int) -> TensorUse:
    """The targets before they were negated: ``-t * log_p``."""
    tensor = tensor_before(flow, target.tensor, row, _NEGATED)
    made = flow.newest_producer(tensor, row)
    uses = flow.log.calls[made].outputs if made is not None else ()
    return next((use for use in uses if use.tensor == tensor), target)
