"""GV632."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.log_probabilities import is_drawn, kind_of
from gradviz.analysis.rules.bases.losses.signed_terms import Term, number_of, signed_terms


class EntropyMinimized(Rule):
    """The entropy of a policy is added to the loss of its policy gradient.

    What it finds
    -------------
    A loss that subtracts log-probabilities of chosen actions, times weights without a gradient, and adds the entropy of
    the same policy with a positive factor: ``dist.entropy()``, ``-(p * p.log()).sum()``.

    Why it matters
    --------------
    An entropy bonus keeps the policy exploring. What is added to a loss gets smaller by training, so the bonus is a
    penalty: the policy prefers one action ever more, before it has tried the others.

    Example
    -------
    policy = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    for step in range(3):
        distribution = torch.distributions.Categorical(logits=policy(torch.randn(16, 4)))
        actions = distribution.sample()
        advantages = torch.randn(16)
        entropy = distribution.entropy().mean()
        loss = -(distribution.log_prob(actions) * advantages).mean() + 0.01 * entropy
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    policy = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    for step in range(3):
        distribution = torch.distributions.Categorical(logits=policy(torch.randn(16, 4)))
        actions = distribution.sample()
        advantages = torch.randn(16)
        entropy = distribution.entropy().mean()
        loss = -(distribution.log_prob(actions) * advantages).mean() - 0.01 * entropy
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV632"
    name = "entropy_minimized"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for backward in case.histories.last_trained_backward_of_each_line:
            terms = [
                term for use in flow.log.calls[backward].roots for term in signed_terms(flow, backward, use.tensor)
            ]
            entropies = [term for term in terms if _is_added_entropy(flow, term)]
            scores = [term for term in terms if _is_subtracted_score(flow, term)] if entropies else []
            for entropy in entropies:
                site = flow.log.calls[entropy.row].call_site
                shared = [(score, leaves) for score in scores if (leaves := _shared(case, entropy, score))]
                if shared and site not in told:
                    told.add(site)
                    yield self._finding(case, entropy, *shared[0])

    def _finding(self, case: Case, entropy: Term, score: Term, leaves: frozenset[int]) -> Finding:
        flow = case.dataflow
        both = [row for row, other in zip(entropy.path, score.path, strict=False) if row == other]
        here, made = location_of_call(flow, both[-1]), location_of_call(flow, entropy.row)
        return self.finding(
            "the loss adds the entropy of the policy whose log-probabilities it weighs: training makes the entropy "
            "smaller, and the policy stops exploring",
            symptom="grad_wrong",
            why="a loss is minimized, so a bonus must be subtracted from it",
            fix="turn the sign of the entropy around: loss = policy_loss - coefficient * entropy",
            location=here,
            symptom_location=made if made != here else None,
            tensors=names_of(flow, sorted(leaves)),
        )


_OF_A_NORMAL = 1.4189385
"""Half of 1 + log(2 pi): the entropy of a normal distribution, without the logarithm of its scale."""
_ROUNDED = 1e-4
_PRODUCTS = frozenset({"mul", "einsum", "dot", "vecdot"})
_CHOOSES = frozenset({"gather", "getitem", "take_along_dim", "take", "masked_select"})
_BOTH = 2


def _is_added_entropy(flow: Dataflow, term: Term) -> bool:
    call = flow.log.calls[term.row]
    name, live = plain_name(call.function), call.live_inputs
    if not term.is_sure or not live:
        return False
    if name in _PRODUCTS:
        return term.sign < 0 and len(live) == _BOTH and _are_probability_and_log(flow, term.row)
    if name == "add":
        constant = number_of(call, "1", "0", "other", missing=0.0)
        return term.sign > 0 and len(call.inputs) == 1 and abs(constant - _OF_A_NORMAL) < _ROUNDED
    if name == "xlogy":
        return term.sign < 0 and len({use.tensor for use in live}) == 1
    if name == "entr":
        return term.sign > 0
    return name == "binary_cross_entropy_with_logits" and term.sign > 0 and len(live) == _BOTH


def _are_probability_and_log(flow: Dataflow, row: int) -> bool:
    """Whether one factor is a probability, and the other one the logarithm of the same."""
    kinds = [kind_of(flow, use.tensor, row) for use in flow.log.calls[row].live_inputs]
    return sorted(kinds) == ["log", "probability"]


def _is_subtracted_score(flow: Dataflow, term: Term) -> bool:
    """Whether it is a weighted log-probability of what was drawn, or one with weights of both signs, subtracted."""
    if not term.is_weighted:
        return False
    call = flow.log.calls[term.row]
    name = plain_name(call.function)
    chosen = [use for use in call.inputs if not use.requires_grad]
    sign = term.sign
    if name in _CHOOSES:
        is_score = bool(chosen) and bool(kind_of(flow, call.inputs[0].tensor, term.row))
    elif name in ("nll_loss", "cross_entropy", "binary_cross_entropy_with_logits"):
        is_score, sign = bool(chosen), -sign
    elif name in _PRODUCTS:  # with ones where something was drawn, and zeros elsewhere
        values = flow.values_of(chosen[0], term.row) if len(chosen) == 1 else None
        is_choice = values is not None and (values.minimum, values.maximum) == (0, 1)
        is_score = is_choice and len(call.live_inputs) == 1
        is_score = is_score and kind_of(flow, call.live_inputs[0].tensor, term.row) == "log"
    elif name in ("pow", "square"):
        made = flow.newest_producer(call.inputs[0].tensor, term.row) if call.live_inputs else None
        call = call if made is None else flow.log.calls[made]
        chosen = [use for use in call.inputs if not use.requires_grad]
        is_score, sign = plain_name(call.function) == "sub" and len(chosen) == 1, -sign
    else:
        return False
    if not is_score or sign > 0:
        return False
    return term.has_both_signs or any(is_drawn(flow, use.tensor, term.row) for use in chosen)


def _shared(case: Case, entropy: Term, score: Term) -> frozenset[int]:
    """The trained leaves from which both were computed."""
    histories = case.histories
    leaves = [
        histories.live_leaves((use.tensor for use in histories.log.calls[term.row].outputs), term.row + 1)[0]
        for term in (entropy, score)
    ]
    return leaves[0] & leaves[1] & histories.trained
