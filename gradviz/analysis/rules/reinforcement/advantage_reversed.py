"""GV665."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.parameters.computed_alike import twins
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import tensor_before, value_maker
from gradviz.analysis.rules.bases.losses.signed_terms import (
    Term,
    is_number_first,
    number_of,
    signed_terms,
)
from gradviz.analysis.rules.bases.losses.targets.fitted_values import ALL_VALUES, fitted_values
from gradviz.graph.call_log import Call


class AdvantageReversed(Rule):
    """An advantage is the value minus the return, so actions that were better than expected become less likely.

    What it finds
    -------------
    A loss that subtracts log-probabilities of actions, times ``value - target`` without a gradient, or adds cross
    entropies of actions that are weighed so, where the same ``value``, or the same network called once more, is fitted
    to the same ``target`` by an error. A difference whose line speaks of a cost is left alone.

    Why it matters
    --------------
    The loss of a policy gradient makes actions with a positive weight more likely. An action that was better than the
    critic expected has a return above its value: the weight has to be ``target - value``.

    Example
    -------
    policy, critic = torch.nn.Linear(4, 3), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*policy.parameters(), *critic.parameters()], lr=0.1)
    for step in range(3):
        states, returns = torch.randn(16, 4), torch.randn(16)
        distribution = torch.distributions.Categorical(logits=policy(states))
        value = critic(states).squeeze(1)
        advantage = value.detach() - returns
        score = distribution.log_prob(distribution.sample())
        loss = -(score * advantage).mean() + (value - returns).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    policy, critic = torch.nn.Linear(4, 3), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*policy.parameters(), *critic.parameters()], lr=0.1)
    for step in range(3):
        states, returns = torch.randn(16, 4), torch.randn(16)
        distribution = torch.distributions.Categorical(logits=policy(states))
        value = critic(states).squeeze(1)
        advantage = returns - value.detach()
        score = distribution.log_prob(distribution.sample())
        loss = -(score * advantage).mean() + (value - returns).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV665"
    name = "advantage_reversed"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        fitted = set(fitted_values(flow))
        for backward in case.histories.last_trained_backward_of_each_line if fitted else ():
            for use in flow.log.calls[backward].roots:
                for term in signed_terms(flow, backward, use.tensor):
                    found = _difference_as_weight(flow, term)
                    if found is None or not _is_fitted(flow, *found, fitted):
                        continue
                    row, _ = found
                    if flow.log.calls[row].call_site not in told and not _is_of_costs(case, row):
                        told.add(flow.log.calls[row].call_site)
                        yield self._finding(flow, row, term.row)

    def _finding(self, flow: Dataflow, row: int, used: int) -> Finding:
        location, loss = two_lines(flow, row, used)
        return self.finding(
            "the weight of the log-probabilities is the value minus what the value is fitted to: what was better than "
            "expected becomes less likely",
            symptom="grad_wrong",
            why="an advantage is positive where the return is above the value",
            fix="turn the difference around: advantage = returns - value.detach()",
            location=location,
            symptom_location=loss,
        )


def _is_fitted(flow: Dataflow, row: int, sides: tuple[int, int], fitted: set[tuple[int, int]]) -> bool:
    """Whether an error fits the first side of a difference to the second, or what was computed like the first."""
    if sides in fitted:
        return True
    values = [value for value, target in fitted if target == sides[1]]
    return any(twins(flow, (sides[0], row), (value, len(flow.log.calls))) is not None for value in values)


def _is_of_costs(case: Case, row: int) -> bool:
    """Whether the line of a difference speaks of a cost: what costs less than expected should become more likely."""
    location = location_of_call(case.dataflow, row)
    text = "" if location is None else case.source_line(location) or ""
    return _COSTS.search(text.partition("#")[0]) is not None


_COSTS = re.compile(r"cost|penalt|regret|latenc|tour", re.IGNORECASE)
_BOTH = 2
_PRODUCTS = frozenset({"mul", "dot", "inner", "vdot", "vecdot", "einsum", "tensordot", "matmul", "mv"})
_NORMALIZES = frozenset({"div", "sub", "add", "mul", "detach", "clamp", "neg", "layer_norm", "tanh"})
_LOSSES_OF_ACTIONS = frozenset({"cross_entropy", "nll_loss", "binary_cross_entropy_with_logits"})
"""They return negative log-probabilities."""
_CHOICES = frozenset({"gather", "log_softmax", "take_along_dim", "logsigmoid"})
"""They return log-probabilities of actions, which may be added up or negated before they are weighed."""
_MAX_STEPS = 8


def _difference_as_weight(flow: Dataflow, term: Term) -> tuple[int, tuple[int, int]] | None:
    """The difference that weighs a log-probability which a loss subtracts, and its two sides, of which the second is
    taken away from the first; it may have been normalized."""
    name = plain_name(flow.log.calls[term.row].function)
    is_subtracted = term.sign > 0 if name in _LOSSES_OF_ACTIONS else term.sign < 0
    if not is_subtracted or len(term.path) < _BOTH:
        return None
    is_certain = name in _CHOICES | _LOSSES_OF_ACTIONS
    for product in reversed(term.path[:-1] if is_certain else term.path[-2:-1]):
        call = flow.log.calls[product]
        dead = [use for use in call.inputs if not use.requires_grad]
        if plain_name(call.function) in _PRODUCTS and len(dead) == 1 and len(call.live_inputs) == 1:
            found = _difference(flow, dead[0].tensor, product)
            if found is not None:
                return found
    return None


def _difference(flow: Dataflow, tensor: int, before: int) -> tuple[int, tuple[int, int]] | None:
    """The difference of two tensors from which a weight was made, with its sides in the order of the weight."""
    sign = 1
    for _ in range(_MAX_STEPS):
        made = value_maker(flow, tensor, before, through=frozenset({"detach"}))
        if made is None or plain_name(made[1].function) not in _NORMALIZES or not made[1].inputs:
            return None
        before, call = made
        sides = _sides(flow, before, call)
        if sides is not None and not _is_centred(flow, before, call):
            return before, sides if sign > 0 else sides[::-1]
        sign *= _sign_of_factor(call)
        tensor = call.inputs[0].tensor
    return None


def _sides(flow: Dataflow, row: int, call: Call) -> tuple[int, int] | None:
    """What a difference begins with, and what it takes away; None if a call makes no difference of two tensors."""
    if len(call.inputs) != _BOTH:
        return None
    name = plain_name(call.function)
    sides = [tensor_before(flow, use.tensor, row, ALL_VALUES) for use in call.inputs]
    if name == "sub":
        return (sides[1], sides[0]) if call.function.rpartition(".")[2] == "__rsub__" else (sides[0], sides[1])
    if name == "add" and number_of(call, "alpha", missing=1.0) < 0:
        return sides[0], sides[1]
    for position, side in enumerate(sides) if name == "add" else ():
        made = flow.newest_producer(side, row)
        if made is not None and plain_name(flow.log.calls[made].function) == "neg":
            negated = tensor_before(flow, flow.log.calls[made].inputs[0].tensor, made, ALL_VALUES)
            return sides[1 - position], negated
    return None


def _sign_of_factor(call: Call) -> int:
    """-1 for a call that turns the sign of its first input around."""
    name, number = plain_name(call.function), number_of(call, "1", "0", "other", missing=1.0)
    is_turned = name == "neg" or (name in ("mul", "div") and len(call.inputs) == 1 and number < 0)
    # A number from which a weight is subtracted, as in 0 - weight.
    return -1 if is_turned or (name == "sub" and is_number_first(call)) else 1


def _is_centred(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call takes the mean of its first input away from it."""
    made = flow.newest_producer(call.inputs[1].tensor, row)
    return made is not None and plain_name(flow.log.calls[made].function) in ("mean", "nanmean", "median")
