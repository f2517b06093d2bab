"""Probabilities of one trained layer that another one imitates, where the loss sends gradients into both."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import take_parameters
from gradviz.analysis.finding import Location
from gradviz.graph.call_log import Call, TensorUse

_LOSSES = frozenset({"kl_div", "cross_entropy"})
_LABELLED = frozenset({"cross_entropy", "nll_loss"})
_SOFTMAX = frozenset({"softmax", "log_softmax"})
_SCALES = frozenset({"div", "mul", "log", "exp", "clamp", "add", "float", "to"})
_BOTH = 2
_MAX_MAKERS = 8


class Imitated(Struct, frozen=True):
    """One imitation in the last step of a line."""

    row: int
    """The loss that compares the two."""
    softmax: int
    """The call that makes probabilities of the scores that are the target."""
    parameters: tuple[int, ...]
    """What the target is computed by."""


class _Compared(Struct, frozen=True):
    """The scores behind the two arguments of a loss."""

    given: int
    target: int
    softmax: int


def imitated_targets(case: Case) -> Iterator[Imitated]:
    """Those whose scores the same loss fits to labels, too, that do not imitate the others in turn, as in mutual
    learning, and that no network decodes."""
    flow, told = case.dataflow, set[Location | None]()
    for backward in case.histories.last_trained_backward_of_each_line:
        reached = case.backward_calls.reached(backward).members
        rows = [(row, call) for row, call in calls_named(flow, _LOSSES) if row in reached]
        pairs = {row: found for row, call in rows if (found := _compared(flow, row, call)) is not None}
        for row, pair in pairs.items():
            is_mutual = any(each.given == pair.target for each in pairs.values())
            location = location_of_call(flow, row)
            is_known = is_mutual or location in told or not _is_fitted_to_labels(flow, pair.target, reached)
            if is_known or _is_decoded(flow, pair.target, backward, reached):
                continue
            own, other = (set(case.histories.live_leaves((each,), row)[0]) for each in (pair.target, pair.given))
            trained = sorted(own & case.histories.trained)
            if trained and other - own and own - other:
                told.add(location)
                yield Imitated(row, pair.softmax, tuple(trained))


def _compared(flow: Dataflow, row: int, call: Call) -> _Compared | None:
    """What a loss of two live arguments compares, unless the first one is made of the second: a mean of several."""
    if len(call.live_inputs) != _BOTH:
        return None
    given, target = (_scores(flow, use, row) for use in call.live_inputs)
    if target is None:
        return None
    softmax, scores = target
    above = given[1] if given is not None else call.live_inputs[0].tensor
    is_of_target = any(
        use.tensor in (scores, call.live_inputs[1].tensor)
        for each in flow.ancestors(call.live_inputs[0].tensor, row, flow.step_before(row))
        for use in flow.log.calls[each].inputs
    )
    return None if is_of_target or above == scores else _Compared(above, scores, softmax)


def _scores(flow: Dataflow, use: TensorUse, row: int) -> tuple[int, int] | None:
    """The call that makes probabilities, and the scores that it got, before they were divided by a temperature."""
    softmax, tensor = None, use.tensor
    for made, call in flow.makers(use.tensor, row, _MAX_MAKERS):
        name = plain_name(call.function)
        if name in _SOFTMAX and softmax is None:
            softmax = made
        elif name not in _SCALES or len(call.live_inputs) != 1:
            break
        tensor = call.inputs[0].tensor
    return None if softmax is None else (softmax, tensor)


def _is_fitted_to_labels(flow: Dataflow, scores: int, reached: frozenset[int]) -> bool:
    """Whether a loss of the same backward compares the scores with data."""
    return any(
        plain_name(flow.log.calls[each].function) in _LABELLED and len(flow.log.calls[each].live_inputs) == 1
        for row in flow.users(scores)
        for each in (row, *_next(flow, row))
        if each in reached
    )


def _is_decoded(flow: Dataflow, scores: int, backward: int, reached: frozenset[int]) -> bool:
    """Whether another network takes what is made of the scores: they are a code, whose prior is learned."""
    made = flow.newest_producer(scores, backward)
    below = reached.intersection(flow.descendants(scores, made, backward, live=True))
    return take_parameters(flow, below)


def _next(flow: Dataflow, row: int) -> tuple[int, ...]:
    """What takes the logarithms of probabilities that a call makes."""
    call = flow.log.calls[row]
    is_softmax = plain_name(call.function) in _SOFTMAX and call.outputs
    return flow.users(call.outputs[0].tensor, row) if is_softmax else ()
