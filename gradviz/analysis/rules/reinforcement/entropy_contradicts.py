"""GV747."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import DIFFERENCES, at_line, calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.targets.signed_parts import Part, signed_parts
from gradviz.graph.call_log import TensorUse


class EntropyContradicts(Rule):
    """The entropy of a policy is a bonus for the policy and a cost in the target of its values, or the other way round.

    What it finds
    -------------
    The loss of a policy that contains ``alpha * log_prob - Q``, while the target of a value function contains
    ``Q + alpha * log_prob`` of the same policy; or a loss with ``-alpha * log_prob - Q`` beside a target with
    ``Q - alpha * log_prob``.

    Why it matters
    --------------
    In soft actor-critic an uncertain action is worth more by ``-alpha * log_prob``, everywhere. With the opposite sign
    in one place, the values say that exploring is bad where the policy is paid for it, and neither gets right.

    Example
    -------
    policy, critic = torch.nn.Linear(4, 2), torch.nn.Linear(5, 1)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (policy, critic)]

    def act(states):
        mean, log_std = policy(states).chunk(2, 1)
        distribution = torch.distributions.Normal(mean, log_std.exp())
        action = distribution.rsample()
        return action, distribution.log_prob(action)

    for step in range(3):
        states, following, rewards = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8, 1)
        with torch.no_grad():
            action, score = act(following)
            target = rewards + 0.9 * (critic(torch.cat([following, action], 1)) + 0.2 * score)
        error = (critic(torch.cat([states, torch.randn(8, 1)], 1)) - target).square().mean()
        optimizers[1].zero_grad()
        error.backward()
        optimizers[1].step()
        action, score = act(states)
        loss = (0.2 * score - critic(torch.cat([states, action], 1))).mean()
        optimizers[0].zero_grad()
        loss.backward()
        optimizers[0].step()

    Instead
    -------
    policy, critic = torch.nn.Linear(4, 2), torch.nn.Linear(5, 1)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (policy, critic)]

    def act(states):
        mean, log_std = policy(states).chunk(2, 1)
        distribution = torch.distributions.Normal(mean, log_std.exp())
        action = distribution.rsample()
        return action, distribution.log_prob(action)

    for step in range(3):
        states, following, rewards = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8, 1)
        with torch.no_grad():
            action, score = act(following)
            target = rewards + 0.9 * (critic(torch.cat([following, action], 1)) - 0.2 * score)
        error = (critic(torch.cat([states, torch.randn(8, 1)], 1)) - target).square().mean()
        optimizers[1].zero_grad()
        error.backward()
        optimizers[1].step()
        action, score = act(states)
        loss = (0.2 * score - critic(torch.cat([states, action], 1))).mean()
        optimizers[0].zero_grad()
        loss.backward()
        optimizers[0].step()
    """

    code = "GV747"
    name = "entropy_contradicts"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        targets = list(_targets(case)) if case.histories.steps else []
        losses = list(_losses(case)) if targets else []
        told = set[int]()
        for target, loss in product(targets, losses):
            is_same = not target.policy.isdisjoint(loss.policy)
            wrong = target if target.is_cost else loss
            if is_same and target.is_cost is not loss.is_cost and wrong.joined not in told:
                told.add(wrong.joined)
                yield self._finding(case, wrong, loss if wrong is target else target, is_target=wrong is target)

    def _finding(self, case: Case, wrong: _Sum, other: _Sum, *, is_target: bool) -> Finding:
        location, right = (location_of_call(case.dataflow, each.joined) for each in (wrong, other))
        here, there = ("target of the values", "loss of the policy")[:: 1 if is_target else -1]
        return self.finding(
            f"the {here} takes the entropy of the policy for a cost, and the {there}{at_line(right)} takes it for a "
            "bonus: the signs of the log-probability contradict each other",
            symptom="grad_wrong",
            why="an action is worth Q - alpha * log_prob, for the policy and in the target",
            fix="subtract it: target = reward + gamma * (Q - alpha * log_prob)"
            if is_target
            else "minimize alpha * log_prob - Q",
            location=location,
            symptom_location=right if right != location else None,
            tensors=names_of(case.dataflow, sorted(_multipliers(case, wrong.path))),
        )


class _Sum(Struct, frozen=True):
    """A sum of values and log-probabilities."""

    is_cost: bool
    """Whether the log-probability has the same sign as the value."""
    policy: frozenset[int]
    """The parameters from which the log-probability was computed."""
    joined: int
    """The call that adds one to the other."""
    path: tuple[int, ...]
    """The calls from the sum down to the log-probability."""


_BOTH = 2
_MAX_NEAR = 300


def _targets(case: Case) -> Iterator[_Sum]:
    """Those that are the target of an error, one for each line."""
    flow = case.dataflow
    last: dict[int | None, int] = {}
    for row, call in calls_named(flow, DIFFERENCES):
        is_error = len(call.inputs) == _BOTH and len(call.live_inputs) == 1
        if is_error and flow.has_step_after(row):
            last[call.call_site] = row
    for row in last.values():
        dead = next(use for use in flow.log.calls[row].inputs if not use.requires_grad)
        yield from _sums(flow, dead, row)


def _losses(case: Case) -> Iterator[_Sum]:
    """Those that a policy is trained with."""
    flow = case.dataflow
    for backward in case.histories.last_trained_backward_of_each_line:
        for use in flow.log.calls[backward].roots:
            for found in _sums(flow, use, backward):
                if not found.policy.isdisjoint(case.histories.reached_by[backward] & case.histories.trained):
                    yield found


def _sums(flow: Dataflow, use: TensorUse, before: int) -> Iterator[_Sum]:
    parts = list(signed_parts(flow, use, before))
    scores = [part for part in parts if part.kind == "log-probability"]
    for score in scores[:1]:
        policy = _parameters_above(flow, score.row)
        values = [part for part in parts if part.kind == "value" and _own(flow, part).isdisjoint(policy)]
        signs = {value.sign * score.sign for value in values}
        if len(signs) == 1 and len({each.sign for each in scores}) == 1:
            yield _Sum(signs == {1}, policy, _joined(values[0], score), score.path)


def _parameters_above(flow: Dataflow, row: int) -> frozenset[int]:
    rows = flow.ancestors(flow.log.calls[row].outputs[0].tensor, row + 1, since=flow.step_before(row))
    numbers = (use.tensor for each in rows for use in flow.log.calls[each].inputs)
    return frozenset(number for number in numbers if flow.log.tensors[number].role == "parameter")


def _multipliers(case: Case, path: tuple[int, ...]) -> set[int]:
    """The trained numbers that a log-probability is multiplied with."""
    flow, found = case.dataflow, set[int]()
    for row in path:
        call = flow.log.calls[row]
        for use in call.inputs if plain_name(call.function) == "mul" else ():
            if prod(shape_of(flow, use.tensor)) == 1:
                above = flow.ancestors(use.tensor, row, since=flow.step_before(row) - _MAX_NEAR)
                found |= {each.tensor for made in above for each in flow.log.calls[made].inputs}
    return found & case.histories.trained


def _own(flow: Dataflow, value: Part) -> frozenset[int]:
    return frozenset(use.tensor for use in flow.log.calls[value.row].inputs)


def _joined(value: Part, score: Part) -> int:
    """The last call that is on the way to both."""
    both = [row for row, other in zip(value.path, score.path, strict=False) if row == other]
    return both[-1] if both else score.path[0]
