"""GV648."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.objectives import objectives
from gradviz.analysis.rules.bases.losses.signed_terms import Term

_BOTH = 2


class EntropyOfScores(Rule):
    """An entropy multiplies probabilities with scores, where it needs their logarithms.

    What it finds
    -------------
    A loss with a sum of ``softmax(scores) * scores`` whose same scores also go through ``log_softmax()``, or into a
    ``cross_entropy()`` or a ``Categorical``, in another term.

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
    call = flow.log.calls[term.row]
    if plain_name(call.function) != "mul" or len(call.live_inputs) != _BOTH:
        return False
    for one, other in (call.live_inputs, reversed(call.live_inputs)):
        made = flow.newest_producer(one.tensor, term.row)
        softmax = None if made is None else flow.log.calls[made]
        is_softmax = softmax is not None and plain_name(softmax.function) == "softmax"
        if is_softmax and softmax is not None and softmax.inputs[0].tensor == other.tensor:
            return any(_takes_logarithms(flow, row) for row in flow.users(other.tensor, made))
    return False


def _takes_logarithms(flow: Dataflow, row: int) -> bool:
    name = plain_name(flow.log.calls[row].function)
    return name in ("log_softmax", "cross_entropy", "logsumexp")
