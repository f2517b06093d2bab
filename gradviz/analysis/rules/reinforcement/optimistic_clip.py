"""GV674."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.signed_terms import Term, signed_terms


class OptimisticClip(Rule):
    """Of a clipped and an unclipped term, a loss takes the better one for each sample, not the worse one.

    What it finds
    -------------
    A loss that adds the minimum of two terms, or subtracts their maximum, where one of the two is computed from a value
    and the other one from the same value behind a clamp: the clipped objective of proximal policy optimization (PPO).

    Why it matters
    --------------
    The clipped objective takes the worse of the two, so that nothing is gained by moving the ratio further (Schulman et
    al. 2017, https://arxiv.org/abs/1707.06347, equation 7). The better of the two rewards steps that go too far, and
    gives no gradient to those that should be taken back.

    Example
    -------
    policy = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    x, actions, advantage = torch.randn(16, 4), torch.randint(0, 3, (16,)), torch.randn(16)
    with torch.no_grad():
        old = torch.distributions.Categorical(logits=policy(x)).log_prob(actions)
    for step in range(3):
        ratio = (torch.distributions.Categorical(logits=policy(x)).log_prob(actions) - old).exp()
        clipped = ratio.clamp(0.8, 1.2) * advantage
        loss = -torch.max(ratio * advantage, clipped).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    policy = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    x, actions, advantage = torch.randn(16, 4), torch.randint(0, 3, (16,)), torch.randn(16)
    with torch.no_grad():
        old = torch.distributions.Categorical(logits=policy(x)).log_prob(actions)
    for step in range(3):
        ratio = (torch.distributions.Categorical(logits=policy(x)).log_prob(actions) - old).exp()
        clipped = ratio.clamp(0.8, 1.2) * advantage
        loss = -torch.min(ratio * advantage, clipped).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV674"
    name = "optimistic_clip"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_trained_backward_of_each_line:
            for use in flow.log.calls[backward].roots:
                for term in signed_terms(flow, backward, use.tensor):
                    site = flow.log.calls[term.row].call_site
                    if site not in told and _takes_the_better(flow, term):
                        told.add(site)
                        yield self._finding(flow, term)

    def _finding(self, flow: Dataflow, term: Term) -> Finding:
        taken, other = ("minimum", "maximum") if term.sign > 0 else ("maximum", "minimum")
        verb = "adds" if term.sign > 0 else "subtracts"
        return self.finding(
            f"the loss {verb} the {taken} of a term and the same term behind a clamp: it takes the better of the two",
            symptom="grad_wrong",
            why="a clipped objective takes the worse of the two, so that nothing is gained by going further",
            fix=f"take the {other} of the two",
            location=location_of_call(flow, term.row),
        )


_WORSE_IF_ADDED = frozenset({"max", "maximum", "fmax"})
_WORSE_IF_SUBTRACTED = frozenset({"min", "minimum", "fmin"})
_CLAMPS = frozenset({"clamp", "clip"})
_BOTH = 2
_MAX_STEPS = 8


def _takes_the_better(flow: Dataflow, term: Term) -> bool:
    call = flow.log.calls[term.row]
    if plain_name(call.function) not in (_WORSE_IF_SUBTRACTED if term.sign > 0 else _WORSE_IF_ADDED):
        return False
    if len(call.live_inputs) != _BOTH:
        return False
    (one, clamped_one), (other, clamped_other) = (_way_up(flow, use.tensor, term.row) for use in call.live_inputs)
    return (not clamped_one and not clamped_other.isdisjoint(one)) or (
        not clamped_other and not clamped_one.isdisjoint(other)
    )


def _way_up(flow: Dataflow, tensor: int, before: int) -> tuple[set[int], set[int]]:
    """The tensors that a term was computed from, along its input with a gradient; and those of them above a clamp."""
    passed, clamped, is_clamped = {tensor}, set[int](), False
    for _ in range(_MAX_STEPS):
        row = flow.newest_producer(tensor, before)
        live = () if row is None else flow.log.calls[row].live_inputs
        if row is None or len(live) != 1:
            break
        tensor, before = live[0].tensor, row
        passed.add(tensor)
        is_clamped = is_clamped or plain_name(flow.log.calls[row].function) in _CLAMPS
        if is_clamped:
            clamped.add(tensor)
    return passed, clamped
