"""GV665."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, tensor_before, value_maker
from gradviz.analysis.rules.bases.losses.signed_terms import Term, signed_terms
from gradviz.graph.call_log import Call


class AdvantageReversed(Rule):
    """An advantage is the value minus the return, so actions that were better than expected become less likely.

    What it finds
    -------------
    A loss that subtracts log-probabilities of actions, times ``value - target`` without a gradient, where the same
    ``value`` is fitted to the same ``target`` by a squared error.

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
        fitted = set(_fitted_values(flow))
        for backward in case.histories.last_trained_backward_of_each_line if fitted else ():
            for use in flow.log.calls[backward].roots:
                for term in signed_terms(flow, backward, use.tensor):
                    row = _difference_as_weight(flow, term)
                    pair = None if row is None else _sides(flow, row, flow.log.calls[row])
                    if row is not None and pair in fitted and flow.log.calls[row].call_site not in told:
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


_BOTH = 2
_ERRORS = frozenset({"mse_loss", "smooth_l1_loss", "huber_loss"})
_SQUARES = frozenset({"pow", "square"})
_NORMALIZES = frozenset({"div", "sub", "add", "mul", "detach", "clamp"})
_MAX_STEPS = 8


def _fitted_values(flow: Dataflow) -> Iterator[tuple[int, int]]:
    """For each squared error: the prediction and its target, before changes of shape."""
    for row, call in enumerate(flow.log.calls):
        name = plain_name(call.function)
        if len(call.inputs) != _BOTH or len(call.live_inputs) != 1:
            continue
        users = (flow.log.calls[user] for user in flow.users(call.outputs[0].tensor, row)) if call.outputs else ()
        if name in _ERRORS or (name == "sub" and any(plain_name(user.function) in _SQUARES for user in users)):
            live, dead = sorted(call.inputs, key=lambda use: not use.requires_grad)
            yield tensor_before(flow, live.tensor, row, _PASSED), tensor_before(flow, dead.tensor, row, _PASSED)


_PASSED = frozenset({"detach", "clone", *SHAPE_ONLY}) - {"getitem"}


def _sides(flow: Dataflow, row: int, call: Call) -> tuple[int, int]:
    """What a difference begins with, and what it takes away."""
    first, second = (tensor_before(flow, use.tensor, row, _PASSED) for use in call.inputs)
    return (second, first) if call.function.rpartition(".")[2] == "__rsub__" else (first, second)


def _difference_as_weight(flow: Dataflow, term: Term) -> int | None:
    """The difference that weighs a log-probability which a loss subtracts; it may have been normalized."""
    if term.sign > 0 or len(term.path) < _BOTH:
        return None
    product = term.path[-2]
    call = flow.log.calls[product]
    dead = [use for use in call.inputs if not use.requires_grad]
    if plain_name(call.function) != "mul" or len(dead) != 1 or len(call.live_inputs) != 1:
        return None
    tensor, before = dead[0].tensor, product
    for _ in range(_MAX_STEPS):
        made = value_maker(flow, tensor, before, through=frozenset({"detach"}))
        if made is None or plain_name(made[1].function) not in _NORMALIZES or not made[1].inputs:
            return None
        if plain_name(made[1].function) == "sub" and len(made[1].inputs) == _BOTH and not _is_centred(flow, *made):
            return made[0]
        before, tensor = made[0], made[1].inputs[0].tensor
    return None


def _is_centred(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call takes the mean of its first input away from it."""
    made = flow.newest_producer(call.inputs[1].tensor, row)
    return made is not None and plain_name(flow.log.calls[made].function) == "mean"
