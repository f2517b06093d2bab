"""GV669."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import at_line, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.products import is_square, is_squared
from gradviz.graph.call_log import TensorUse


class SquashNotCounted(Rule):
    """The log-probability of a squashed action is that of the number before ``tanh``.

    What it finds
    -------------
    A loss that contains both the log-probability of a sample ``u`` of a normal distribution, with a gradient through
    ``u``, also as ``gaussian_nll_loss()`` or by its formula, and a network's answer to ``tanh(u)``, where nothing takes
    the logarithm of the slope of ``tanh`` into account: no ``log(1 - a ** 2)``, and no ``softplus`` of ``u``.

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


def _own_step_before(histories: ParameterHistories, backward: int) -> int:
    """The step before a backward of the optimizer that steps after it: that of a critic may come between what an actor
    computes and its own backward."""
    index = bisect_left(histories.steps, backward)
    if index == len(histories.steps):
        return histories.flow.step_before(backward)
    own = histories.steps_by_optimizer[histories.log.calls[histories.steps[index]].optimizer]
    place = bisect_left(own, backward)
    return own[place - 1] if place else 0


def _is_squash(flow: Dataflow, row: int) -> bool:
    """Whether a call is the ``tanh`` of a mean plus noise times a scale, both with a gradient."""
    call = flow.log.calls[row]
    return plain_name(call.function) == "tanh" and len(call.live_inputs) == 1 and _sample(flow, row) is not None


class _Sample(Struct, frozen=True):
    """A mean plus noise times a scale."""

    noise: int
    scale: int
    row: int
    """The call that multiplies them."""


def _sample(flow: Dataflow, squash: int) -> _Sample | None:
    """What a call squashes, if it was drawn: by ``mean + noise * scale`` or ``addcmul(mean, noise, scale)``."""
    made = flow.newest_producer(flow.log.calls[squash].inputs[0].tensor, squash)
    drawn = None if made is None else flow.log.calls[made]
    if made is None or drawn is None or len(drawn.live_inputs) != _BOTH:
        return None
    if plain_name(drawn.function) == "addcmul":
        return _scaled_noise(flow, drawn.inputs[1:], made)
    if plain_name(drawn.function) != "add":
        return None
    for use in drawn.inputs:
        row = flow.newest_producer(use.tensor, made)
        call = None if row is None else flow.log.calls[row]
        is_product = call is not None and plain_name(call.function) == "mul"
        found = _scaled_noise(flow, call.inputs, row) if row is not None and call is not None and is_product else None
        if found is not None:
            return found
    return None


def _scaled_noise(flow: Dataflow, factors: tuple[TensorUse, ...], row: int) -> _Sample | None:
    if len(factors) != _BOTH:
        return None
    noise = next((use.tensor for use in factors if not use.requires_grad), None)
    drawn = None if noise is None else flow.newest_producer(noise, row)
    if noise is None or drawn is None or plain_name(flow.log.calls[drawn].function) not in _DRAWS:
        return None
    return _Sample(noise, next(use.tensor for use in factors if use.tensor != noise), row)


_DRAWS = frozenset({"randn", "randn_like", "normal", "_standard_normal"})


def _score_of(flow: Dataflow, squash: int, above: tuple[int, ...]) -> int | None:
    """The call of the log-probability that squares the distance of the same number from its mean."""
    u = flow.log.calls[squash].inputs[0].tensor
    for row in above:
        call = flow.log.calls[row]
        sides = [use.tensor for use in call.inputs[:_BOTH]]
        if len(call.live_inputs) < _BOTH or u not in sides:
            continue
        name = plain_name(call.function)
        if name in _SQUARED_DISTANCES:
            return row
        if name == "sub" and (square := _square_of(flow, call.outputs[0].tensor, row)):
            return square
    return _score_of_noise(flow, squash, above)


def _score_of_noise(flow: Dataflow, squash: int, above: tuple[int, ...]) -> int | None:
    """The call that squares the noise itself, if the logarithm of the scale is then added to it, or taken away."""
    sample, within = _sample(flow, squash), set(above)
    if sample is None:
        return None
    logarithms = _logarithms(flow, sample, within)
    for row in flow.users(sample.noise):
        call = flow.log.calls[row]
        waiting = [(row, call.outputs[0].tensor)] if row in within and is_squared(call) and call.outputs else []
        for _ in range(_MAX_STEPS):
            if not waiting:
                break
            before, tensor = waiting.pop()
            for user in flow.users(tensor, before):
                added = flow.log.calls[user]
                if user not in within or plain_name(added.function) not in _ADDS or not added.outputs:
                    continue
                if any(use.tensor in logarithms for use in added.inputs):
                    return row
                waiting.append((user, added.outputs[0].tensor))
    return None


def _logarithms(flow: Dataflow, sample: _Sample, within: set[int]) -> set[int]:
    """The logarithms of a scale: what it is the exponential of, and what the loss takes of it, with any factor."""
    made = flow.newest_producer(sample.scale, sample.row)
    maker = None if made is None else flow.log.calls[made]
    is_exponential = maker is not None and plain_name(maker.function) == "exp"
    found = {maker.inputs[0].tensor} if maker is not None and is_exponential else set[int]()
    for user in flow.users(sample.scale):
        call = flow.log.calls[user]
        if user in within and plain_name(call.function) == "log" and call.outputs:
            found.add(call.outputs[0].tensor)
    weighed = (user for tensor in tuple(found) for user in flow.users(tensor) if user in within)
    scaled = (flow.log.calls[user] for user in weighed)
    return found | {
        call.outputs[0].tensor for call in scaled if plain_name(call.function) in ("mul", "neg", "sum") and call.outputs
    }


_MAX_STEPS = 8
_ADDS = frozenset({"add", "sub", "mul", "neg", "sum", "div"})


_SQUARED_DISTANCES = frozenset({"gaussian_nll_loss", "mse_loss"})
"""They compare a number with a mean, of which both have a gradient."""


def _square_of(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The call that squares a tensor, perhaps after it was divided by a scale."""
    for _ in range(_MAX_STEPS):
        scaled = None
        for user in flow.users(tensor, row):
            call = flow.log.calls[user]
            if is_square(call):
                return user
            if plain_name(call.function) in ("div", "mul", "neg") and call.outputs and scaled is None:
                scaled = user
        if scaled is None:
            return None
        tensor, row = flow.log.calls[scaled].outputs[0].tensor, scaled
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
