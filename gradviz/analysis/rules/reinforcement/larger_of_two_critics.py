"""GV868."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import ERRORS_OF_VALUES, at_line, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import dense_weights_above
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import calls_in_training, value_maker
from gradviz.analysis.rules.bases.losses.signed_terms import signed_terms
from gradviz.graph.call_log import Call


class LargerOfTwoCritics(Rule):
    """The target of two critics takes the larger of their two estimates.

    What it finds
    -------------
    An error whose target is the sum of a reward and what ``max()`` or ``maximum()`` takes, element by element, of the
    results of two networks, of which the program nowhere takes the smaller one. Both learn towards that target, and no
    loss falls with what a network expects, as it does for costs.

    Why it matters
    --------------
    Estimates of values have errors, and a policy looks for actions whose value is overestimated. Two critics are there
    to take the smaller estimate; the larger one adds the overestimation up from step to step.

    Example
    -------
    one, two = torch.nn.Linear(5, 1), torch.nn.Linear(5, 1)
    optimizer = torch.optim.SGD([*one.parameters(), *two.parameters()], lr=0.1)
    for step in range(3):
        pairs, following, rewards = torch.randn(8, 5), torch.randn(8, 5), torch.randn(8, 1)
        with torch.no_grad():
            target = rewards + 0.9 * torch.max(one(following), two(following))
        loss = (one(pairs) - target).square().mean() + (two(pairs) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    one, two = torch.nn.Linear(5, 1), torch.nn.Linear(5, 1)
    optimizer = torch.optim.SGD([*one.parameters(), *two.parameters()], lr=0.1)
    for step in range(3):
        pairs, following, rewards = torch.randn(8, 5), torch.randn(8, 5), torch.randn(8, 1)
        with torch.no_grad():
            target = rewards + 0.9 * torch.min(one(following), two(following))
        loss = (one(pairs) - target).square().mean() + (two(pairs) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV868"
    name = "larger_of_two_critics"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for rows in calls_in_training(flow, ERRORS_OF_VALUES):
            found = [_larger(flow, row) for row in rows[-_EXAMINED:]]
            if found[-1] is None or not all(each is not None for each in found):
                continue
            site = flow.log.calls[found[-1]].call_site
            if site not in told and not _takes_smaller(flow) and not _are_costs(case):
                told.add(site)
                yield self._finding(flow, rows[-1], found[-1])

    def _finding(self, flow: Dataflow, row: int, larger: int) -> Finding:
        location, loss = location_of_call(flow, larger), location_of_call(flow, row)
        return self.finding(
            f"the target of the error{at_line(loss)} takes the larger of what two networks expect of the next state",
            symptom="grad_wrong",
            why="the larger of two estimates is one that is too high, and the next target builds on it",
            fix="take the smaller one: torch.min(q1, q2)",
            location=location,
            symptom_location=loss if loss != location else None,
        )


_LARGER = frozenset({"max", "maximum"})
_SMALLER = frozenset({"min", "minimum"})
_PASSED = frozenset({"mul", "add", "sub", "addcmul", "masked_fill", "where"})
_BOTH = 2
_EXAMINED = 4
_MAX_MAKERS = 12


def _larger(flow: Dataflow, row: int) -> int | None:
    """The call that takes the larger result of two networks, to which the target of an error adds a reward."""
    call = flow.log.calls[row]
    if len(call.inputs) != _BOTH or len(call.live_inputs) != 1:
        return None
    target = next(use for use in call.inputs if not use.requires_grad)
    added = value_maker(flow, target.tensor, row, through=frozenset({"detach"}))
    if added is None or plain_name(added[1].function) not in ("add", "addcmul") or len(added[1].inputs) < _BOTH:
        return None
    if len(_predictions_towards(flow, added[1].outputs[0].tensor, added[0])) < _BOTH:
        return None  # Networks of one action each learn of their own samples.
    if not any(dense_weights_above(flow, use.tensor, added[0]) == set() for use in added[1].inputs):
        return None
    waiting, seen = [(use.tensor, added[0]) for use in added[1].inputs], 0
    while waiting and seen < _MAX_MAKERS:
        seen += 1
        made = value_maker(flow, *waiting.pop())
        if made is not None and _is_of_two_networks(flow, *made):
            return made[0]
        if made is not None and plain_name(made[1].function) in _PASSED:
            waiting += [(use.tensor, made[0]) for use in made[1].inputs]
    return None


def _predictions_towards(flow: Dataflow, target: int, row: int) -> set[int]:
    """The predictions whose errors have one target."""
    found, waiting, seen = set[int](), [(target, row)], 0
    while waiting and seen < _MAX_MAKERS:
        seen += 1
        for user in flow.users(*waiting.pop()):
            call = flow.log.calls[user]
            if plain_name(call.function) in ERRORS_OF_VALUES and len(call.live_inputs) == 1:
                found.add(call.live_inputs[0].tensor)
            elif call.outputs and not call.live_inputs:
                waiting.append((call.outputs[0].tensor, user))
    return found


def _are_costs(case: Case) -> bool:
    """Whether something is trained to lower the single number that a layer gives: an actor that saves costs."""
    flow = case.dataflow
    return any(
        term.sign > 0
        and term.is_sure
        and plain_name(flow.log.calls[term.row].function) == "linear"
        and shape_of(flow, flow.log.calls[term.row].outputs[0].tensor)[-1:] == (1,)
        for backward in case.histories.last_trained_backward_of_each_line
        for root in flow.log.calls[backward].roots
        for term in signed_terms(flow, backward, root.tensor)
    )


def _is_of_two_networks(flow: Dataflow, row: int, call: Call) -> bool:
    if plain_name(call.function) not in _LARGER or len(call.inputs) != _BOTH:
        return False
    one, other = (dense_weights_above(flow, use.tensor, row) for use in call.inputs)
    return bool(one - other) and bool(other - one)


def _takes_smaller(flow: Dataflow) -> bool:
    """Whether the program takes the smaller result of two networks anywhere, as for a mixture of both."""
    return any(
        plain_name(call.function) in _SMALLER
        and len(call.inputs) == _BOTH
        and all(dense_weights_above(flow, use.tensor, row) for use in call.inputs)
        for row, call in enumerate(flow.log.calls)
    )
