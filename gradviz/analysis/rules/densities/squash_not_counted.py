"""GV669."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.targets.squashed_samples import (
    is_squash,
    score_of,
    score_of_action,
    slope_at_action,
)


class SquashNotCounted(Rule):
    """The log-probability of a squashed action is that of the number before ``tanh``.

    What it finds
    -------------
    A loss that contains both the log-probability of a sample ``u`` of a normal distribution, with a gradient through
    ``u``, also as ``gaussian_nll_loss()`` or by its formula, and a network's answer to ``tanh(u)``, where nothing takes
    the logarithm of the slope of ``tanh`` into account: no ``log(1 - a ** 2)``, and no ``softplus`` of ``u``. Likewise
    where the slope is taken at the action instead of ``u``: ``log(1 - tanh(a) ** 2)``, ``softplus(-2 * a)``; and where
    the distribution of ``u`` is asked for the log-probability of ``tanh(u)``.

    Why it matters
    --------------
    ``tanh`` presses the actions near -1 and 1 together, which makes them likelier than ``u`` was. Without the term
    ``log(1 - tanh(u) ** 2)`` the entropy that the policy is to keep is that of ``u``: it grows without end, and all
    actions end at the borders.

    Example
    -------
    policy, critic = torch.nn.Linear(4, 2), torch.nn.Linear(5, 1).requires_grad_(False)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    for step in range(3):
        states = torch.randn(8, 4)
        mean, log_std = policy(states).chunk(2, dim=1)
        distribution = torch.distributions.Normal(mean, log_std.exp())
        u = distribution.rsample()
        action, score = torch.tanh(u), distribution.log_prob(u)
        loss = (0.2 * score - critic(torch.cat([states, action], dim=1))).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    policy, critic = torch.nn.Linear(4, 2), torch.nn.Linear(5, 1).requires_grad_(False)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    for step in range(3):
        states = torch.randn(8, 4)
        mean, log_std = policy(states).chunk(2, dim=1)
        distribution = torch.distributions.Normal(mean, log_std.exp())
        u = distribution.rsample()
        action, score = torch.tanh(u), distribution.log_prob(u)
        score = score - torch.log(1 - action.pow(2) + 1e-6)
        loss = (0.2 * score - critic(torch.cat([states, action], dim=1))).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV669"
    name = "squash_not_counted"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_trained_backward_of_each_line:
            for root in flow.log.calls[backward].roots:
                above = flow.ancestors(root.tensor, backward, since=_own_step_before(case.histories, backward))
                for squash in (row for row in above if is_squash(flow, row)):
                    score = score_of(flow, squash, above)
                    site = flow.log.calls[squash].call_site
                    if score is not None and site not in told and not _is_counted(flow, squash, above):
                        told.add(site)
                        yield self._finding(flow, squash, score)
                    of_action = score_of_action(flow, squash, above) if score is None else None
                    if of_action is not None and flow.log.calls[of_action].call_site not in told:
                        told.add(flow.log.calls[of_action].call_site)
                        yield self._of_action(flow, squash, of_action)
                    wrong = None if score is None else slope_at_action(flow, squash, above)
                    if wrong is not None and flow.log.calls[wrong].call_site not in told:
                        told.add(flow.log.calls[wrong].call_site)
                        yield self._at_action(flow, squash, wrong)

    def _finding(self, flow: Dataflow, squash: int, score: int) -> Finding:
        location, squashed = two_lines(flow, score, squash)
        return self.finding(
            f"the loss takes the log-probability of what goes into tanh() for that of the action{at_line(squashed)}",
            symptom="grad_wrong",
            why="tanh presses actions near -1 and 1 together: their log-probability has to be less by "
            "log(1 - tanh(u) ** 2)",
            fix="subtract torch.log(1 - action.pow(2) + 1e-6) from the log-probability, before it is summed",
            location=location,
            symptom_location=squashed,
        )

    def _of_action(self, flow: Dataflow, squash: int, score: int) -> Finding:
        location, squashed = two_lines(flow, score, squash)
        return self.finding(
            f"the distribution of what goes into tanh(){at_line(squashed)} is asked for the log-probability of the "
            "action, which is what tanh() returned",
            symptom="grad_wrong",
            why="the normal distribution says how likely u is, and the action is tanh(u): it is nowhere beyond -1 and "
            "1, where the distribution may have most of its weight",
            fix="ask for that of u, and count the slope of tanh: log_prob(u) - torch.log(1 - action.pow(2) + 1e-6)",
            location=location,
            symptom_location=squashed,
        )

    def _at_action(self, flow: Dataflow, squash: int, slope: int) -> Finding:
        location, squashed = two_lines(flow, slope, squash)
        return self.finding(
            f"the slope of tanh() is taken at the action, which is what tanh() returned{at_line(squashed)}, and not at "
            "what went into it",
            symptom="grad_wrong",
            why="the slope at u is 1 - tanh(u) ** 2; squashed twice, it is never near zero, so that actions at the "
            "borders cost nothing",
            fix="use the action as it is, torch.log(1 - action.pow(2) + 1e-6), or tanh() and softplus() of u",
            location=location,
            symptom_location=squashed,
        )


_LOGARITHMS = frozenset({"log", "log1p", "softplus", "logsigmoid", "log10"})


def _own_step_before(histories: ParameterHistories, backward: int) -> int:
    """The step before a backward of the optimizer that steps after it: that of a critic may come between what an actor
    computes and its own backward."""
    index = bisect_left(histories.steps, backward)
    if index == len(histories.steps):
        return histories.flow.step_before(backward)
    own = histories.steps_by_optimizer[histories.log.calls[histories.steps[index]].optimizer]
    place = bisect_left(own, backward)
    return own[place - 1] if place else 0


def _is_counted(flow: Dataflow, squash: int, above: tuple[int, ...]) -> bool:
    """Whether the loss takes a logarithm of something that was computed from the number or from its ``tanh``."""
    call, within = flow.log.calls[squash], set(above)
    for tensor in (call.inputs[0].tensor, call.outputs[0].tensor):
        first = flow.newest_producer(tensor, squash + 1) or squash
        below = flow.descendants(tensor, first, above[-1] + 1, live=True)
        if any(row in within and plain_name(flow.log.calls[row].function) in _LOGARITHMS for row in below):
            return True
    return False
