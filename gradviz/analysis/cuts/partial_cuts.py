"""Cuts on one of several paths: the tensors above them get gradients, but none through what was cut.

Programs cut such paths on purpose, with ``detach()`` or ``no_grad()``: a target, an advantage, a state. So only those
count that nobody writes for that: a result that is made a list or a NumPy array and a tensor again, or cast to integers
and computed with, while nothing else uses it; a cut that is combined with a live path of the same kind, which is
only noted where some programs mean it; and the value of a parameter that otherwise learns from itself alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from gradviz.analysis.cuts.cut_paths import GUESSES, CutPath, cut_paths_on
from gradviz.analysis.cuts.missing_gradients import CutOff
from gradviz.analysis.cuts.residual_cuts import (
    cut_beside_a_live_path,
    is_dead_straight_through,
    joins_its_twin,
    splits_a_draw,
)
from gradviz.analysis.cuts.trained_by_itself import is_trained_by_itself
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.cuts import Cut
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.values.outside_torch import Reentry
from gradviz.analysis.parameters.parameter_histories import ParameterHistories

_COMPUTES = frozenset({"div", "mul", "add", "sub", "float", "double", "to", "type", "half", "bfloat16"})
_INTO_ARRAYS = frozenset({"tolist", "numpy", "__array__", "tensor", "as_tensor", "asarray", "new_tensor"})
_MOVES = frozenset({"detach", "cpu", "numpy", "__array__", "tolist"})


def partial_cuts(histories: ParameterHistories) -> Iterator[CutOff]:
    """Those of the step of the last backward call of each line, one for each line that cuts."""
    flow = histories.flow
    for backward in histories.last_trained_backward_of_each_line:
        wanted = histories.reached_by[backward] & histories.trained
        since = flow.step_before(backward)
        for use in flow.log.calls[backward].roots:
            for cut_path, cuts in cut_paths_on(flow, use.tensor, backward, lambda cut: cut.call_site, since + 1):
                kind = _kind(histories, cut_path, backward)
                if kind is None:
                    continue
                same = cuts if cut_path.cut.kind == "value" else (cut_path.cut,)
                above = (histories.live_leaves(cut.live_inputs, cut.call)[0].union(cut.live_inputs) for cut in same)
                tensors = tuple(sorted(frozenset().union(*above) & wanted))
                if tensors:
                    may_be_meant = kind == "may be meant"
                    yield CutOff(
                        cut_path, cuts, backward, use.tensor, False, tensors, is_partial=True, may_be_meant=may_be_meant
                    )


def _kind(histories: ParameterHistories, cut_path: CutPath, backward: int) -> Literal["slip", "may be meant"] | None:
    """Whether nobody cuts so on purpose, or some do; None for the cuts that are usual."""
    flow, beside = histories.flow, cut_beside_a_live_path(histories, cut_path)
    is_slip = (
        beside == "skip"
        or _is_no_purpose(flow, cut_path)
        or is_dead_straight_through(flow, cut_path)
        or splits_a_draw(flow, cut_path, backward)
        or is_trained_by_itself(histories, cut_path, backward)
    )
    if is_slip:
        return "slip"
    return "may be meant" if beside == "other" or joins_its_twin(flow, cut_path) else None


def _is_no_purpose(flow: Dataflow, cut_path: CutPath) -> bool:
    cut = cut_path.cut
    is_sure = cut_path.doubt <= GUESSES.index("value") or _comes_back_as_it_was(flow, cut_path)
    return (
        is_sure
        and not cut_path.is_steering
        and _leaves_torch_or_floats(flow, cut_path)
        and all(_is_used_only_for(flow, tensor, cut) for tensor in cut.live_inputs)
    )


def _comes_back_as_it_was(flow: Dataflow, cut_path: CutPath) -> bool:
    """Whether what came back by order has the shape of what had left, and the same extreme values."""
    if cut_path.doubt != GUESSES.index("order"):
        return False
    return all(_is_same(flow, each) for each in cut_path.reentries)


def _is_same(flow: Dataflow, reentry: Reentry) -> bool:
    tensors, made = flow.log.tensors, flow.log.tensors[reentry.into].producer
    left = flow.values(reentry.tensor, reentry.exit)
    back = None if made is None else flow.values(reentry.into, made + 1)
    return (
        tensors[reentry.tensor].facts.shape == tensors[reentry.into].facts.shape
        and left is not None
        and left == back
        and left.minimum != left.maximum
    )


def _leaves_torch_or_floats(flow: Dataflow, cut_path: CutPath) -> bool:
    calls = flow.log.calls
    names = [plain_name(calls[row].function) for row in cut_path.calls]
    if cut_path.cut.kind == "cast":
        return len(names) > 1 and names[1] in _COMPUTES
    # The first that is no mere step on the way out.
    return any(name in _INTO_ARRAYS for name in names[: 1 + sum(name in _MOVES for name in names)][:_WAY_OUT])


_WAY_OUT = 4


def _is_used_only_for(flow: Dataflow, tensor: int, cut: Cut) -> bool:
    """Whether it is a result of several numbers, and nothing with a history was computed from it."""
    shape = flow.log.tensors[tensor].facts.shape
    row = flow.newest_producer(tensor, cut.call)
    if row is None or all(size == 1 for size in shape):
        return False
    is_computed = any(use.tensor == tensor and use.has_grad_fn for use in flow.log.calls[row].outputs)
    users = (flow.log.calls[user] for user in flow.users(tensor, after=row))
    return is_computed and not any(use.requires_grad for call in users for use in call.outputs)
