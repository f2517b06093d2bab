"""GV739."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sequences.carried_sums import Factors, Turn, carried_sums
from gradviz.graph.call_log import Call, TensorUse


class AdvantagesCrossEnds(Rule):
    """Advantages of one episode go on into the episode before.

    What it finds
    -------------
    A loop that goes back through the steps, ``last = delta + gamma * lam * last``, where ``delta`` is a reward plus the
    value of the next state less that of the state, and the next value is multiplied by zero where an episode ends, but
    ``last`` is not. It is only told where the flag was zero in a turn that got a sum from the turn before.

    Why it matters
    --------------
    The last step of an episode then also gets the advantages of the next one, which its action has nothing to do with:
    so do all steps before it. The estimates are noisy, most of all where episodes are short.

    Example
    -------
    network = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    for step in range(3):
        states, rewards = torch.randn(9, 4), torch.randn(8)
        alive = torch.ones(8)
        alive[2 + step] = 0.0
        with torch.no_grad():
            values = network(states)[:, 2]
        advantages, last = torch.zeros(8), torch.zeros(())
        for t in reversed(range(8)):
            delta = rewards[t] + 0.99 * values[t + 1] * alive[t] - values[t]
            last = delta + 0.99 * 0.95 * last
            advantages[t] = last
        distribution = torch.distributions.Categorical(logits=network(states)[:8, :2])
        loss = -(distribution.log_prob(distribution.sample()) * advantages).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    network = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    for step in range(3):
        states, rewards = torch.randn(9, 4), torch.randn(8)
        alive = torch.ones(8)
        alive[2 + step] = 0.0
        with torch.no_grad():
            values = network(states)[:, 2]
        advantages, last = torch.zeros(8), torch.zeros(())
        for t in reversed(range(8)):
            delta = rewards[t] + 0.99 * values[t + 1] * alive[t] - values[t]
            last = delta + 0.99 * 0.95 * alive[t] * last
            advantages[t] = last
        distribution = torch.distributions.Categorical(logits=network(states)[:8, :2])
        loss = -(distribution.log_prob(distribution.sample()) * advantages).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV739"
    name = "advantages_cross_ends"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        for turns in carried_sums(flow):
            if any(turn.carried.is_off for turn in turns):
                continue
            leaks = [turn for turn in turns if _is_leak(flow, turn)]
            if leaks and len(leaks) < len(turns) and flow.has_step_after(leaks[-1].row):
                yield self._finding(flow, leaks[-1], len(leaks), len(turns))

    def _finding(self, flow: Dataflow, turn: Turn, leaks: int, turns: int) -> Finding:
        return self.finding(
            "the value of the next state is multiplied by zero where an episode ends, and the sum of what follows is "
            f"not: in {leaks:,} of {turns:,} turns of the loop, it comes from the next episode",
            symptom="grad_wrong",
            why="nothing that happens in the next episode is due to an action of this one",
            fix="multiply both by the same flag: last = delta + gamma * lam * (1 - done) * last",
            location=location_of_call(flow, turn.row),
            evidence={"turns": turns, "at_ends": leaks},
        )


_OF_NETWORKS = frozenset({"linear", "matmul", "conv2d", "conv1d", "embedding", "addmm", "mm"})
_DECIDES = frozenset({
    "gt", "ge", "lt", "le", "eq", "ne", "isclose", "any", "all", "argmax", "multinomial", "bernoulli", "normal",
})  # fmt: skip
_MAX_ABOVE = 40


def _is_leak(flow: Dataflow, turn: Turn) -> bool:
    """Whether a turn adds what it got from the turn before, though it leaves out the value of the next state."""
    masked = [each for each in turn.added if each.is_masked and _hides_value(flow, each)]
    if not turn.is_carried or not turn.has_subtracted or not masked:
        return False
    return not any(_is_of_network(flow, *flag) for each in masked for flag in each.flags)


def _hides_value(flow: Dataflow, factors: Factors) -> bool:
    """Whether a network computed what is multiplied by zero: a reward may have such a factor, too."""
    return any(_is_of_network(flow, *each) for each in factors.tensors if each not in factors.flags)


def _is_of_network(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a network computed a flag, or a value. What tells what came of drawn actions is of the environment."""
    since = flow.step_before(row)

    def onward(call: Call) -> tuple[TensorUse, ...]:
        return () if plain_name(call.function) in _DECIDES else call.inputs

    above = flow.makers_above(tensor, row, _MAX_ABOVE, onward)
    return any(made > since and plain_name(call.function) in _OF_NETWORKS for made, call in above)
