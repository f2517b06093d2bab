"""GV674."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.objectives import has_maximizing_optimizer
from gradviz.analysis.rules.bases.losses.signed_terms import Term, signed_terms
from gradviz.graph.call_log import Call


class OptimisticClip(Rule):
    """Of a clipped and an unclipped term, a loss takes the better one for each sample, not the worse one.

    What it finds
    -------------
    A loss that adds the minimum of two terms, or subtracts their maximum (also of two that are stacked, or chosen by a
    comparison), where one of the two is computed from a value and the other one from the same value behind a clamp: the
    clipped objective of proximal policy optimization (PPO).

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
        if has_maximizing_optimizer(flow):
            return
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


_LARGER = frozenset({"max", "maximum", "fmax", "amax"})
_SMALLER = frozenset({"min", "minimum", "fmin", "amin"})
_OVER_AN_AXIS = frozenset({"max", "amax", "min", "amin"})
_LESS, _GREATER = frozenset({"lt", "le", "less", "less_equal"}), frozenset({"gt", "ge", "greater", "greater_equal"})
_PUTS_TOGETHER = frozenset({"stack", "cat", "hstack", "vstack"})
_CLAMPS = frozenset({"clamp", "clip", "hardtanh"})
_BOTH = 2
_MAX_STEPS = 8


def _takes_the_better(flow: Dataflow, term: Term) -> bool:
    chosen = _of_two(flow, term.row)
    if chosen is None or chosen.is_larger == (term.sign > 0):
        return False
    (one, clamped_one), (other, clamped_other) = (_way_up(flow, each, chosen.row) for each in chosen.tensors)
    return (not clamped_one and not clamped_other.isdisjoint(one)) or (
        not clamped_other and not clamped_one.isdisjoint(other)
    )


class _Chosen(Struct, frozen=True):
    """Two tensors of which the larger or the smaller elements are taken."""

    tensors: tuple[int, int]
    row: int
    """The call that received them."""
    is_larger: bool


def _of_two(flow: Dataflow, row: int) -> _Chosen | None:
    """What a call takes the larger or the smaller elements of: also of two that were stacked, or that a comparison of
    both chooses."""
    call = flow.log.calls[row]
    name, live = plain_name(call.function), call.live_inputs
    if name == "where" and len(live) == _BOTH:
        is_larger = _chooses_larger(flow, row, call)
        return None if is_larger is None else _Chosen((live[0].tensor, live[1].tensor), row, is_larger)
    if name not in _LARGER | _SMALLER:
        return None
    if len(live) == _BOTH:
        return _Chosen((live[0].tensor, live[1].tensor), row, name in _LARGER)
    together = _put_together(flow, row) if len(live) == 1 and name in _OVER_AN_AXIS else None
    if together is None:
        return None
    one, other = flow.log.calls[together].live_inputs
    return _Chosen((one.tensor, other.tensor), together, name in _LARGER)


def _put_together(flow: Dataflow, row: int) -> int | None:
    """The call that put two tensors together of which, perhaps weighed, a call takes an extreme."""
    for _ in range(_MAX_STEPS):
        live = flow.log.calls[row].live_inputs
        made = flow.newest_producer(live[0].tensor, row) if len(live) == 1 else None
        if made is None:
            return None
        row = made
        if plain_name(flow.log.calls[row].function) in _PUTS_TOGETHER:
            return row if len(flow.log.calls[row].live_inputs) == _BOTH == len(flow.log.calls[row].inputs) else None
    return None


def _chooses_larger(flow: Dataflow, row: int, call: Call) -> bool | None:
    """Whether ``where(a > b, a, b)`` takes the larger one of two; None if it compares something else."""
    one, other = call.live_inputs
    made = flow.newest_producer(call.inputs[0].tensor, row)
    comparison = None if made is None else flow.log.calls[made]
    compared = [] if comparison is None else [use.tensor for use in comparison.inputs]
    if comparison is None or sorted(compared) != sorted((one.tensor, other.tensor)):
        return None
    name = plain_name(comparison.function)
    if name not in _LESS | _GREATER:
        return None
    return (name in _GREATER) == (compared[0] == one.tensor)


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
