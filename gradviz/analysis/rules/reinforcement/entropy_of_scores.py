"""GV648."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.products import product_of
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, tensor_before, value_maker
from gradviz.analysis.rules.bases.losses.objectives import objectives
from gradviz.analysis.rules.bases.losses.signed_terms import Term
from gradviz.graph.call_log import Call

_BOTH = 2


class EntropyOfScores(Rule):
    """An entropy multiplies probabilities with scores, where it needs their logarithms.

    What it finds
    -------------
    A loss with a sum of ``softmax(scores) * scores``, also as ``einsum()``, ``vecdot()`` or another product, whose same
    scores also go through ``log_softmax()``, or into a ``cross_entropy()`` or a ``Categorical``, in another term.

    Why it matters
    --------------
    Scores are the logarithms of probabilities only up to a constant, which the sum does not cancel: the result is no
    entropy. A policy can make it as large as it likes by lowering all its scores together, and explores no more.

    Example
    -------
    policy = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    for step in range(3):
        scores = policy(torch.randn(16, 4))
        p = torch.softmax(scores, dim=1)
        action, reward = torch.multinomial(p, 1), torch.randn(16)
        log_p = torch.log_softmax(scores, dim=1)
        entropy = -(p * scores).sum(1).mean()
        loss = -(log_p.gather(1, action).squeeze(1) * reward).mean() - 0.01 * entropy
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    policy = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    for step in range(3):
        scores = policy(torch.randn(16, 4))
        p = torch.softmax(scores, dim=1)
        action, reward = torch.multinomial(p, 1), torch.randn(16)
        log_p = torch.log_softmax(scores, dim=1)
        entropy = -(p * log_p).sum(1).mean()
        loss = -(log_p.gather(1, action).squeeze(1) * reward).mean() - 0.01 * entropy
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV648"
    name = "entropy_of_scores"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for objective in objectives(case):
            for term in objective.last_terms:
                site = flow.log.calls[term.row].call_site
                if site not in told and _is_of_scores(flow, term):
                    told.add(site)
                    yield self.finding(
                        "probabilities are multiplied with the scores that softmax() got, as if these were their "
                        "logarithms: the sum is no entropy",
                        symptom="grad_wrong",
                        why="scores are logarithms of probabilities only up to a constant, so lowering all of them "
                        "raises the result without end",
                        fix="multiply with the logarithms: -(p * torch.log_softmax(scores, dim=-1)).sum(-1)",
                        location=location_of_call(flow, term.row),
                    )


def _is_of_scores(flow: Dataflow, term: Term) -> bool:
    pair = product_of(flow.log.calls[term.row])
    if pair is None or not all(use.requires_grad for use in pair):
        return False
    for one, other in (pair, reversed(pair)):
        made = value_maker(flow, one.tensor, term.row)
        if made is None or plain_name(made[1].function) != "softmax":
            continue
        scores = tensor_before(flow, other.tensor, term.row, SHAPE_ONLY)
        if scores in _given_to_softmax(flow, *made):
            above = flow.newest_producer(scores, term.row)
            is_log = above is not None and plain_name(flow.log.calls[above].function) in ("log", "log_softmax")
            return not is_log and _has_logarithms(flow, scores, term.row)
    return False


def _given_to_softmax(flow: Dataflow, row: int, softmax: Call) -> set[int]:
    """The scores that a softmax got, also before the logarithm of their sum was subtracted, which changes nothing."""
    given = tensor_before(flow, softmax.inputs[0].tensor, row, SHAPE_ONLY)
    found = value_maker(flow, given, row)
    if found is None or plain_name(found[1].function) != "sub" or len(found[1].inputs) != _BOTH:
        return {given}
    made, call = found
    taken = flow.newest_producer(call.inputs[1].tensor, made)
    is_normal = taken is not None and plain_name(flow.log.calls[taken].function) == "logsumexp"
    # A product with the result of the subtraction is an entropy.
    return {tensor_before(flow, call.inputs[0].tensor, made, SHAPE_ONLY)} if is_normal else {given}


def _has_logarithms(flow: Dataflow, scores: int, row: int) -> bool:
    """Whether the same step takes logarithms of the probabilities of these scores, as a policy does."""
    until = flow.next_of_kind("step", row)
    waiting, seen = [scores], {scores}
    while waiting and len(seen) < _MAX_FORMS:
        given = waiting.pop()
        for user in flow.users(given):
            call = flow.log.calls[user]
            name = plain_name(call.function)
            if user >= until:
                break
            if name in _LOGARITHMS or (name == "log" and given != scores):
                return True
            new = [use.tensor for use in call.outputs if use.tensor not in seen]
            if name in SHAPE_ONLY or name == "softmax":
                waiting += new
                seen.update(new)
    return False


_LOGARITHMS = frozenset({"log_softmax", "cross_entropy", "logsumexp"})
_MAX_FORMS = 20
