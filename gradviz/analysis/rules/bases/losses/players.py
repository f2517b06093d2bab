"""Networks that are trained in turns, and what the loss of one asks from another."""

from __future__ import annotations

import re
from bisect import bisect
from collections import defaultdict

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.rules.bases.losses.fits import Fit, fits_in
from gradviz.analysis.rules.bases.losses.objectives import (
    Objective,
    backward_calls_by_kind,
    named_call,
    passed_by_gradient,
)
from gradviz.analysis.rules.bases.losses.requests import Request, requests_in
from gradviz.analysis.rules.bases.losses.rewards import grows_with_rewards


class Agreement(Struct, frozen=True):
    """What the loss of one player asks from the network of another, which that one wants itself."""

    asked: Request
    """Of the loss of the generator."""
    own: Request
    """Of the loss of the discriminator, on generated samples."""
    on_real: Request
    """Of the same, on real ones."""
    leaves: frozenset[int]

    @property
    def is_turned(self) -> bool:
        """Whether it is the discriminator that wants more on generated samples than on real ones."""
        return self.own.wanted > self.on_real.wanted


Turns = dict[int, list[Objective]]
"""By optimizer: the losses of the backward calls after which it is the first to step."""


def turns_of(histories: ParameterHistories, back: int) -> Turns:
    """Of each kind of loss the last one but some, by the optimizer that steps next; with 0, the last with names."""
    calls = histories.log.calls
    found: Turns = defaultdict(list)
    for rows in backward_calls_by_kind(histories):
        backward = rows[-back] if len(rows) >= back else None
        backward = backward if back else named_call(histories.flow, rows)
        step = None if backward is None else bisect(histories.steps, backward)
        if backward is not None and step is not None and step < len(histories.steps):
            optimizer = calls[histories.steps[step]].optimizer
            if optimizer is not None:
                found[optimizer].append(Objective(histories, backward))
    return dict(found)


def agreement(case: Case, turns: Turns, one: int, other: int) -> Agreement | None:
    """What the loss of one optimizer asks from the network of the other, where that asks the same itself."""
    asked = _asked(case, turns, one, other)
    if asked is None:
        return None
    request, leaves, own, its = asked
    on_generated, on_real = _asked_by_itself(case.histories, turns.get(other, []), own, its)
    agrees = all(_is_nearer(request, each, real) for each in on_generated for real in on_real)
    if not (on_generated and on_real and agrees):
        return None
    return Agreement(request, on_generated[0], on_real[0], leaves)


def asked_alike(case: Case, turns: Turns, one: int, other: int) -> tuple[Request, Request] | None:
    """What the network of one, a discriminator of what the other makes, is asked by its own losses on generated samples
    and on real ones, where all of it is the same."""
    asked = _asked(case, turns, other, one)
    if asked is None:
        return None
    _, _, own, its = asked
    on_generated, on_real = _asked_by_itself(case.histories, turns.get(one, []), own, its)
    wanted = {(each.kind, each.wanted) for each in (*on_generated, *on_real)}
    return (on_generated[0], on_real[0]) if on_generated and on_real and len(wanted) == 1 else None


def lowered_value(case: Case, turns: Turns, one: int, other: int) -> tuple[Request, Fit, frozenset[int]] | None:
    """What the loss of one optimizer makes smaller, where the other one fits it to rewards; with that fit."""
    asked = _asked(case, turns, one, other)
    if asked is None:
        return None
    request, leaves, own, its = asked
    flow = case.dataflow
    fits = [
        fit
        for objective in turns.get(other, ())
        for fit in fits_in(flow, objective.terms)
        if objective.leaves_of(fit.term) <= its
    ]
    short = any(_VALUES.search(name) for name in names_of(flow, sorted(own | its)))
    is_lowered = request.kind == "direction" and request.wanted < 0
    third = (_asked(case, turns, each, other) for each in turns if each not in (one, other))
    if any(each is not None and each[0].wanted > 0 for each in third):
        return None  # of two players one gets what the other loses
    if not fits or not is_lowered or any(fit.is_score or fit.is_worsened for fit in fits):
        return None
    is_of_rewards = all(
        any(grows_with_rewards(flow, target, fit.term.row, short=short) for target in fit.targets) for fit in fits
    )
    return (request, fits[0], leaves) if is_of_rewards else None


def asked_otherwise(case: Case, first: int, second: int, one: int, other: int) -> Request | None:
    """What the loss of the first backward asks from the network of the other on what that of one made, where the
    second one asks the opposite there, in all terms."""
    histories = case.histories
    own, its = (histories.trained.intersection(histories.held_by(each)) for each in (one, other))
    if own & its or any(case.dataflow.log.optimizers[each].maximizes for each in (one, other)):
        return None
    asked = []
    for backward in (first, second):
        objective = Objective(histories, backward)
        requests = requests_in(case.dataflow, objective.last_terms)
        asked.append([each for each in requests if _leaves_through(case.dataflow, objective, each, its) & own])
    wanted = [{(each.kind, each.wanted) for each in requests} for requests in asked]
    is_one = all(len(each) == 1 for each in wanted) and wanted[0] != wanted[1]
    return asked[0][0] if is_one and asked[0][0].kind == asked[1][0].kind else None


def asks_itself_otherwise(case: Case, turns: Turns, whole: int, part: int) -> bool:
    """Whether an optimizer also holds the network of another one, and its loss asks the opposite of it on what the
    rest of its own parameters made."""
    histories = case.histories
    held, its = (histories.trained.intersection(histories.held_by(each)) for each in (whole, part))
    own = held - its
    if not its or not its < held:
        return False
    asked = [
        request
        for objective in turns.get(whole, ())
        for request in requests_in(case.dataflow, objective.last_terms)
        if _leaves_through(case.dataflow, objective, request, its) & own
    ]
    on_generated, on_real = _asked_by_itself(histories, turns.get(part, []), own, its)
    wanted = [{(each.kind, each.wanted) for each in requests} for requests in (asked, on_generated, on_real)]
    is_known = all(len(each) == 1 for each in wanted[:2]) and bool(on_real)
    return is_known and asked[0].kind == on_generated[0].kind and wanted[0].isdisjoint(wanted[1])


_VALUES = re.compile(r"actor|critic|policy|(?:^|[._])(?:pi|qf?\d?|q_\w+)(?:$|[._])", re.IGNORECASE)
_Asked = tuple[Request, frozenset[int], frozenset[int], frozenset[int]]


def _asked(case: Case, turns: Turns, one: int, other: int) -> _Asked | None:
    """What one asks from the network of the other, if all requests are the same; with the leaves that it reaches, and
    those that each of the two trains."""
    histories = case.histories
    own, its = (histories.trained.intersection(histories.held_by(each)) for each in (one, other))
    optimizers = case.dataflow.log.optimizers
    if own & its or any(optimizers[each].maximizes for each in (one, other)):
        return None
    asked = [
        (request, leaves)
        for objective in turns.get(one, ())
        for request in requests_in(case.dataflow, objective.last_terms)
        if (leaves := _leaves_through(case.dataflow, objective, request, its) & own)
    ]
    if len({(request.kind, request.wanted) for request, _ in asked}) != 1:
        return None
    return (*asked[0], own, its)


def _is_nearer(request: Request, generated: Request, real: Request) -> bool:
    """Whether something is asked that is nearer to what is asked on generated samples than on real ones."""
    if {request.kind, generated.kind, real.kind} != {request.kind}:
        return False
    return abs(request.wanted - generated.wanted) < abs(request.wanted - real.wanted)


def _leaves_through(flow: Dataflow, objective: Objective, request: Request, its: frozenset[int]) -> frozenset[int]:
    """The parameters that a request reaches through the network with some other parameters."""
    through, has_custom = passed_by_gradient(flow, request.term.row)
    return objective.leaves_of(request.term) if through & its and not has_custom else frozenset()


def _asked_by_itself(
    histories: ParameterHistories, objectives: list[Objective], own: frozenset[int], its: frozenset[int]
) -> tuple[list[Request], list[Request]]:
    """What a discriminator's own losses ask from it on samples that the other network made, and on others."""
    flow = histories.flow
    found: tuple[list[Request], list[Request]] = [], []
    for objective in objectives:
        since = _start_of_round(histories, objective.backward)
        for request in requests_in(flow, objective.last_terms):
            leaves = objective.leaves_of(request.term)
            if leaves & its and not leaves & own:
                above = flow.ancestors(request.output, request.before, since)
                is_generated = any(use.tensor in own for row in above for use in flow.log.calls[row].inputs)
                found[0 if is_generated else 1].append(request)
    return found


def _start_of_round(histories: ParameterHistories, backward: int) -> int:
    """The last backward call of the same kind before this one, or the beginning."""
    calls, reached = histories.log.calls, histories.reached_by
    kind = calls[backward].call_site, reached[backward]
    earlier = [row for row in reached if row < backward and (calls[row].call_site, reached[row]) == kind]
    return max(earlier, default=0)
