"""Distances, as a program computes them, and what only grows with them."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.products import is_square
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.graph.call_log import Call

_DISTANCES = frozenset({"cdist", "pairwise_distance"})
_NORMS = frozenset({"norm", "vector_norm"})
_REDUCE = frozenset({"sum", "mean"})
_MIDDLES = frozenset({"mean", "median", "nanmean", "nanmedian"})
_RISE = frozenset({"sqrt", "clamp", "clamp_min", "square", "relu", "log_softmax"})
"""The larger what they take, the larger their result, where nothing is negative."""
_SCALE = frozenset({"mul", "div"})
_BOTH = 2
_MAX_MAKERS = 8


def distances_behind(flow: Dataflow, tensor: int, before: int) -> tuple[int, frozenset[str]] | None:
    """The call that computed the distances that a tensor is, or with which it grows, and the plain names of the calls
    between them."""
    between = set[str]()
    for _ in range(_MAX_MAKERS):
        made = value_maker(flow, tensor, before)
        if made is None:
            return None
        before, call = made
        name = plain_name(call.function)
        if _is_distance(flow, before, call):
            return before, frozenset(between)
        between.add(name)
        is_rising = name in _RISE or (name in _SCALE | {"pow"} and _is_positive(call))
        if len(call.inputs) != 1 or not is_rising:
            return None
        tensor = call.inputs[0].tensor
    return None


def _is_positive(call: Call) -> bool:
    """Whether the number beside the only tensor of a call is above zero, and does not divide by the tensor."""
    factor = call.scalars.get("1", call.scalars.get("other", call.scalars.get("exponent")))
    return isinstance(factor, int | float) and factor > 0


def _is_distance(flow: Dataflow, row: int, call: Call) -> bool:
    name = plain_name(call.function)
    if name in _DISTANCES:
        return True
    if name not in _NORMS | _REDUCE or len(call.inputs) != 1:
        return False
    made = value_maker(flow, call.inputs[0].tensor, row)
    if made is not None and name in _REDUCE:
        is_even = is_square(made[1]) or plain_name(made[1].function) == "abs"
        made = value_maker(flow, made[1].inputs[0].tensor, made[0]) if is_even else None
    is_difference = made is not None and plain_name(made[1].function) == "sub" and len(made[1].inputs) == _BOTH
    return is_difference and made is not None and not _is_from_own_mean(flow, *made)


def _is_from_own_mean(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether the mean of the same values is subtracted: how far each candidate is from all of them makes a good score
    for the odd one out."""
    values, mean = (use.tensor for use in call.inputs)
    made = value_maker(flow, mean, row)
    is_mean = made is not None and plain_name(made[1].function) in _MIDDLES
    return is_mean and made is not None and made[1].inputs[0].tensor == values
