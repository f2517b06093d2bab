"""Normalizations by hand whose mean and deviation were taken while gradients were off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, TensorUse


class CutStatistics(Struct, frozen=True):
    """One place of the program where this is so."""

    mean: int
    """The last call that took the mean."""
    subtracted: int
    """The call that subtracts it, with gradients on, from what it is the mean of."""
    divided: int
    """The call that divides by the deviation."""
    times: int


def cut_statistics(flow: Dataflow) -> Iterator[CutStatistics]:
    """The lines that normalize what has a history by its own mean and deviation, which have none."""
    found: dict[int | None, list[CutStatistics]] = {}
    for row, call in calls_named(flow, _SUBTRACTS):
        if call.grad_mode != "enabled" or len(call.inputs) != _BOTH or not call.outputs:
            continue
        given, taken = call.inputs
        if not given.has_grad_fn or taken.requires_grad:
            continue
        mean = _statistic_of(flow, given.tensor, taken.tensor, row, _MEANS)
        divided = None if mean is None else _divided_by_deviation(flow, call.outputs[0].tensor, given.tensor, row)
        if mean is not None and divided is not None:
            known = found.setdefault(call.call_site, [])
            known.append(CutStatistics(mean, row, divided, len(known) + 1))
    for places in found.values():
        steps = {flow.step_before(each.subtracted) for each in places}
        if len(steps) >= _MIN_STEPS and flow.has_step_after(places[-1].subtracted):
            yield places[-1]


_BOTH = 2
_MIN_STEPS = 2
_MOST_MAKERS = 12
_MOST_USERS = 6
_SUBTRACTS = frozenset({"sub", "subtract"})
_MEANS = frozenset({"mean", "var_mean", "std_mean"})
_DEVIATIONS = frozenset({"var", "std", "var_mean", "std_mean", "mean"})
_DIVIDES = frozenset({"div", "mul", "true_divide"})


def _statistic_of(flow: Dataflow, given: int, statistic: int, row: int, names: frozenset[str]) -> int | None:
    """The call without gradients that reduced `given`, if it is what `statistic` was made of."""
    for made, call in flow.makers_above(statistic, row, _MOST_MAKERS, _of_one_tensor):
        if call.grad_mode == "enabled" or not call.inputs:
            continue
        if plain_name(call.function) in names and given in _reduced(flow, call, made):
            return made
    return None


def _of_one_tensor(call: Call) -> Sequence[TensorUse]:
    """What a call took, if that is one tensor: a running average is made of two."""
    return call.inputs if len(call.inputs) == 1 and not call.inputs[0].requires_grad else ()


def _reduced(flow: Dataflow, call: Call, row: int) -> Iterator[int]:
    """What a reduction took, and what that was made of: ``(x - mean).square().mean()`` is a variance of x."""
    first = call.inputs[0]
    yield first.tensor
    for _, maker in flow.makers(first.tensor, row, _MOST_MAKERS) if not first.requires_grad else ():
        if maker.grad_mode == "enabled":
            return
        if maker.inputs:
            yield maker.inputs[0].tensor


def _divided_by_deviation(flow: Dataflow, centred: int, given: int, row: int) -> int | None:
    """The call that divides what is left by the deviation, or multiplies it with the reciprocal."""
    for tensor, user, call in flow.users_below(centred, row, _MOST_USERS, _scales):
        if call.grad_mode != "enabled" or plain_name(call.function) not in _DIVIDES or len(call.inputs) != _BOTH:
            continue
        for use in call.inputs:
            is_other = use.tensor != tensor and not use.requires_grad
            if is_other and _statistic_of(flow, given, use.tensor, user, _DEVIATIONS) is not None:
                return user
    return None


def _scales(call: Call) -> bool:
    return plain_name(call.function) in _DIVIDES
