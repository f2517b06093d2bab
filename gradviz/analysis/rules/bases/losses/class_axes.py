"""Divergences of distributions over one axis, of scores whose classes are known to be along another one.

A divergence by hand, ``(p * log q).sum()``, does not tell its axis. What else a program does with the results of the
same layer does: the classes of a ``cross_entropy``, or an ``argmax``.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.dataflow.axes import End, axis_of, ends_of_axes
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

_SCALE = frozenset({"mul", "div", "detach", "float", "to", "clone", "contiguous", "half", "bfloat16"})
_OF_PROBABILITIES = frozenset({"add", "clamp", "clamp_min", "log", "neg", "detach", "clone", "to", "float", "sub"})
_DISTRIBUTIONS = frozenset({"softmax", "log_softmax"})
_MAX_CALLS = 8
_MAX_USES = 20
_SAMPLES_TIMES_CLASSES = 3


def classes_of_divergence(flow: Dataflow, row: int, call: Call, axis: int) -> End | None:
    """The call that takes the classes of a sequence of scores along the last axis, where a softmax over the second axis
    of such scores goes into a divergence."""
    shape = shape_of(flow, call.outputs[0].tensor)
    if plain_name(call.function) not in _DISTRIBUTIONS or len(shape) != _SAMPLES_TIMES_CLASSES or axis != 1:
        return None
    other = _other_side(flow, row, call, axis)
    if other is None:
        return None
    ends = [end for side in {row, other} for end in _ends_of_layer(flow, side, len(shape))]
    is_certain = bool(ends) and all(end.axes == {len(shape) - 1} for end in ends)
    return ends[-1] if is_certain else None


def _other_side(flow: Dataflow, row: int, call: Call, axis: int) -> int | None:
    """The softmax over the same axis with which the result of one is compared: by ``kl_div``, or in a product."""
    waiting, seen = [(call.outputs[0].tensor, row)], set[int]()
    while waiting and len(seen) < _MAX_USES:
        tensor, after = waiting.pop()
        for user in flow.users(tensor, after)[:_MAX_CALLS]:
            each = flow.log.calls[user]
            name = plain_name(each.function)
            if user in seen or each.kind != "operation":
                continue
            seen.add(user)
            if name in ("kl_div", "mul") and len(each.inputs) > 1:
                sides = (_softmax_above(flow, use.tensor, user) for use in each.inputs[:2] if use.tensor != tensor)
                found = next((side for side in sides if side is not None), None)
                if found is not None and found != row and _is_over(flow, found, axis, call):
                    return found
            elif name in _OF_PROBABILITIES:
                waiting += [(use.tensor, user) for use in each.outputs]
    return None


def _softmax_above(flow: Dataflow, tensor: int, before: int) -> int | None:
    for row, call in flow.makers(tensor, before, _MAX_CALLS):
        name = plain_name(call.function)
        if name in _DISTRIBUTIONS:
            return row
        if name not in _OF_PROBABILITIES:
            return None
    return None


def _is_over(flow: Dataflow, row: int, axis: int, like: Call) -> bool:
    call = flow.log.calls[row]
    shape = shape_of(flow, call.outputs[0].tensor)
    return shape == shape_of(flow, like.outputs[0].tensor) and axis_of(call, len(shape)) == axis


def _ends_of_layer(flow: Dataflow, row: int, rank: int) -> Iterator[End]:
    """What takes classes along an axis of any result of the layer that computed the scores of a softmax."""
    weight = _weight_above(flow, row)
    rows = () if weight is None else flow.users(weight)
    for each in dict.fromkeys((*rows[:_MAX_CALLS], *rows[-_MAX_CALLS:])):
        call = flow.log.calls[each]
        if call.kind != "operation" or not call.outputs or len(shape_of(flow, call.outputs[0].tensor)) != rank:
            continue
        for end in ends_of_axes(flow, each, call.outputs[0].tensor, len(flow.log.calls)):
            name = plain_name(flow.log.calls[end.call].function)
            if end.axes and (end.kind == "classes" or name == "argmax"):
                yield end


def _weight_above(flow: Dataflow, row: int) -> int | None:
    """The matrix of the layer that computed the scores of a softmax."""
    for made, call in flow.makers(flow.log.calls[row].inputs[0].tensor, row, _MAX_CALLS):
        weights = [use.tensor for use in call.inputs if flow.log.tensors[use.tensor].role == "parameter"]
        if weights:
            return next((each for each in weights if len(shape_of(flow, each)) > 1), None)
        if plain_name(call.function) not in _SCALE or made >= row:
            return None
    return None
