"""Losses of two players in one backward that ask opposite things of the same score: ``(d_loss + g_loss).backward()``,
where the discriminator judges what the generator made with its history in both."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.gradients.gradients_of_players import PlayersMixed, step_together
from gradviz.analysis.rules.bases.losses.objectives import Objective, objectives
from gradviz.analysis.rules.bases.losses.requests import Request, requests_in

_MIN_TIMES = 2


def opposed_terms(case: Case) -> Iterator[PlayersMixed]:
    """One for each backward whose loss asks a network for more and for less of one input, which another optimizer
    trains."""
    histories = case.histories
    for objective in objectives(case) if len(histories.log.optimizers) > 1 else ():
        backward = objective.backward
        together = step_together(histories, backward)
        shared = _asked_both_ways(case, objective) if len(together) > 1 else frozenset()
        site = histories.log.calls[backward].call_site
        times = sum(histories.log.calls[row].call_site == site for row in histories.backward_calls)
        reached = histories.reached_by.get(backward, frozenset())
        for owner in sorted(together) if times >= _MIN_TIMES else ():
            own = histories.held_by(owner)
            others = frozenset().union(*(histories.held_by(each) for each in together if each != owner)) - own
            given = [tensor for parameter, tensors in shared if parameter in own for tensor in tensors]
            if given and not others.isdisjoint(histories.live_leaves(given, backward)[0]):
                yield PlayersMixed(tuple(sorted(own & reached)), backward, backward, times)


_Use = tuple[int, tuple[int, ...]]
"""A parameter, and the tensors that were given to it: several, if they were joined for it."""


def _asked_both_ways(case: Case, objective: Objective) -> frozenset[_Use]:
    """The parameters with the tensors that are given to them, of scores that should both rise and fall."""
    requests = [each for each in requests_in(case.dataflow, objective.last_terms) if each.kind == "direction"]
    uses = {id(each): _uses(case, each) for each in requests}
    found = frozenset[_Use]()
    for one, other in combinations(requests, 2):
        mine, theirs = uses[id(one)], uses[id(other)]
        is_one_network = {parameter for parameter, _ in mine} == {parameter for parameter, _ in theirs}
        if one.wanted == -other.wanted and is_one_network:
            found |= mine & theirs
    return found


def _uses(case: Case, request: Request) -> frozenset[_Use]:
    """The parameters that a score was computed with from something that has a history, and what that is."""
    flow = case.dataflow
    found = set[_Use]()
    for row in flow.ancestors(request.output, request.before, flow.step_before(request.before)):
        inputs = flow.log.calls[row].inputs
        given = [_parts(flow, use.tensor, row) for use in inputs if use.has_grad_fn]
        parameters = (use.tensor for use in inputs if use.is_live_leaf and use.tensor in case.histories.trained)
        found |= {(parameter, parts) for parameter in parameters for parts in given}
    return frozenset(found)


def _parts(flow: Dataflow, tensor: int, row: int) -> tuple[int, ...]:
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    is_joined = call is not None and plain_name(call.function) in _JOINS
    return tuple(use.tensor for use in call.inputs) if call is not None and is_joined else (tensor,)


_JOINS = frozenset({"cat", "concat", "stack", "hstack"})
