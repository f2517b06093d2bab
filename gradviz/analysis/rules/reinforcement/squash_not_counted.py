"""GV669."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import is_squared


class SquashNotCounted(Rule):
    """The log-probability of a squashed action is that of the number before ``tanh``.

    What it finds
    -------------
    A loss that contains both the log-probability of a sample ``u`` of a normal distribution, with a gradient through
    ``u``, and a network's answer to ``tanh(u)``, where nothing takes the logarithm of the slope of ``tanh`` into
    account: no ``log(1 - a ** 2)``, and no ``softplus`` of ``u``.

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
                above = flow.ancestors(root.tensor, backward, since=flow.step_before(backward))
                for squash in (row for row in above if _is_squash(flow, row)):
                    score = _score_of(flow, squash, above)
                    site = flow.log.calls[squash].call_site
                    if score is not None and site not in told and not _is_counted(flow, squash, above):
                        told.add(site)
                        yield self._finding(flow, squash, score)

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


_LOGARITHMS = frozenset({"log", "log1p", "softplus", "logsigmoid", "log10"})
_BOTH = 2


def _is_squash(flow: Dataflow, row: int) -> bool:
    """Whether a call is the ``tanh`` of a mean plus noise times a scale, both with a gradient."""
    call = flow.log.calls[row]
    if plain_name(call.function) != "tanh" or len(call.live_inputs) != 1:
        return False
    made = flow.newest_producer(call.inputs[0].tensor, row)
    drawn = None if made is None else flow.log.calls[made]
    if made is None or drawn is None or plain_name(drawn.function) != "add" or len(drawn.live_inputs) != _BOTH:
        return False
    return any(_is_scaled_noise(flow, use.tensor, made) for use in drawn.inputs)


def _is_scaled_noise(flow: Dataflow, tensor: int, row: int) -> bool:
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    if made is None or call is None or plain_name(call.function) != "mul" or len(call.inputs) != _BOTH:
        return False
    noise = next((use.tensor for use in call.inputs if not use.requires_grad), None)
    drawn = None if noise is None else flow.newest_producer(noise, made)
    return drawn is not None and plain_name(flow.log.calls[drawn].function) in _DRAWS


_DRAWS = frozenset({"randn", "randn_like", "normal", "_standard_normal"})


def _score_of(flow: Dataflow, squash: int, above: tuple[int, ...]) -> int | None:
    """The call of the log-probability that squares the distance of the same number from its mean."""
    u = flow.log.calls[squash].inputs[0].tensor
    for row in above:
        call = flow.log.calls[row]
        is_distance = plain_name(call.function) == "sub" and len(call.live_inputs) == _BOTH
        if is_distance and call.inputs[0].tensor == u and (square := _square_of(flow, call.outputs[0].tensor, row)):
            return square
    return None


def _square_of(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The call that squares a tensor, perhaps after it was divided by a scale."""
    for user in flow.users(tensor, row):
        call = flow.log.calls[user]
        name = plain_name(call.function)
        if name != "mul" and is_squared(call):
            return user
        if name == "div" and call.outputs:
            return _square_of(flow, call.outputs[0].tensor, user)
    return None


def _is_counted(flow: Dataflow, squash: int, above: tuple[int, ...]) -> bool:
    """Whether the loss takes a logarithm of something that was computed from the number or from its ``tanh``."""
    call, within = flow.log.calls[squash], set(above)
    for tensor in (call.inputs[0].tensor, call.outputs[0].tensor):
        first = flow.newest_producer(tensor, squash + 1) or squash
        below = flow.descendants(tensor, first, above[-1] + 1, live=True)
        if any(row in within and plain_name(flow.log.calls[row].function) in _LOGARITHMS for row in below):
            return True
    return False
