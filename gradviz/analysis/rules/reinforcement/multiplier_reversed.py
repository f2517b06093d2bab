"""GV687."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.objectives import Objective, has_turned_gradients, objectives
from gradviz.analysis.rules.bases.losses.scales.learned_multipliers import (
    MultipliedTerm,
    multiplied_terms,
    multiplier_of_constraint,
)
from gradviz.analysis.rules.bases.losses.signed_terms import Term


class MultiplierReversed(Rule):
    """A learned multiplier, such as the temperature of an entropy, is trained with the wrong sign.

    What it finds
    -------------
    A trained tensor that one loss multiplies something with, without its gradient, as the temperature of a soft
    actor-critic or the multiplier of a constraint; and whose own loss adds it times the same, where it should subtract
    that, or the other way around. Also a trained number that one loss multiplies with ``cost - budget``, where steps go
    down that loss for both. A row of multipliers, one for each constraint, counts as well, and so does a product that
    ``torch.dot()`` or ``einsum`` sums up. A multiplier that another term of its loss holds is left alone.

    Why it matters
    --------------
    A multiplier should grow while what it weighs is too large. With this sign it falls then, and the other way around:
    the temperature is smallest where the policy explores least, and nothing holds the constraint.

    Example
    -------
    policy, value = torch.nn.Linear(4, 2), torch.nn.Linear(5, 1).requires_grad_(False)
    log_alpha = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([*policy.parameters(), log_alpha], lr=0.01)
    for step in range(3):
        state = torch.randn(16, 4)
        mean, log_std = policy(state).chunk(2, 1)
        normal = torch.distributions.Normal(mean, log_std.exp())
        action = normal.rsample()
        log_p = normal.log_prob(action).sum(1)
        q = value(torch.cat([state, action], 1)).squeeze(1)
        actor_loss = (log_alpha.exp().detach() * log_p - q).mean()
        alpha_loss = (log_alpha * (log_p + 1.0).detach()).mean()
        optimizer.zero_grad()
        (actor_loss + alpha_loss).backward()
        optimizer.step()

    Instead
    -------
    policy, value = torch.nn.Linear(4, 2), torch.nn.Linear(5, 1).requires_grad_(False)
    log_alpha = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([*policy.parameters(), log_alpha], lr=0.01)
    for step in range(3):
        state = torch.randn(16, 4)
        mean, log_std = policy(state).chunk(2, 1)
        normal = torch.distributions.Normal(mean, log_std.exp())
        action = normal.rsample()
        log_p = normal.log_prob(action).sum(1)
        q = value(torch.cat([state, action], 1)).squeeze(1)
        actor_loss = (log_alpha.exp().detach() * log_p - q).mean()
        alpha_loss = -(log_alpha * (log_p + 1.0).detach()).mean()
        optimizer.zero_grad()
        (actor_loss + alpha_loss).backward()
        optimizer.step()
    """

    code = "GV687"
    name = "multiplier_reversed"
    severity = "warning"
    yields_to = ("entropy_contradicts",)

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int]()
        found = [each for each in objectives(case) if each.is_whole]
        weighed = {
            (each.leaf, each.maker, each.sign): term.row
            for objective in found
            for term in objective.terms
            for each in multiplied_terms(case, term, is_trained=False)
        }
        if has_turned_gradients(flow):
            return
        for objective in found:
            for term in objective.terms:
                leaf = multiplier_of_constraint(case, term)
                if leaf is not None and leaf not in told and _is_alone(case, objective, leaf, term):
                    told.add(leaf)
                    yield self._of_one_loss(case, leaf, term)
        for objective in found:
            for term in objective.terms:
                for each in multiplied_terms(case, term, is_trained=True):
                    row = weighed.get((each.leaf, each.maker, each.sign))
                    if row is not None and each.leaf not in told and _is_alone(case, objective, each.leaf, term):
                        told.add(each.leaf)
                        yield self._finding(case, each, term, row)

    def _of_one_loss(self, case: Case, leaf: int, term: Term) -> Finding:
        name = case.tensor_name(leaf)
        return self.finding(
            f"{name} multiplies a constraint, and steps go down the same loss for it: it gets smaller where the "
            "constraint is broken",
            symptom="grad_wrong",
            why="a Lagrangian is minimized by the model and maximized by its multiplier, which grows while the "
            "constraint is broken",
            fix=f"step {name} up the gradient: give it an optimizer with maximize=True, or minimize minus the product",
            location=location_of_call(case.dataflow, term.row),
            tensors=names_of(case.dataflow, [leaf]),
        )

    def _finding(self, case: Case, product: MultipliedTerm, term: Term, weighed: int) -> Finding:
        flow = case.dataflow
        name, what = case.tensor_name(product.leaf), case.tensor_name(product.tensor)
        here, used = location_of_call(flow, term.row), location_of_call(flow, weighed)
        verb, wanted = ("adds", "subtract") if product.sign > 0 else ("subtracts", "add")
        return self.finding(
            f"one loss {verb} {name} times {what}, and the loss that trains {name} {verb} the same: it gets smaller "
            "where it should grow",
            symptom="grad_wrong",
            why=f"both losses are minimized: what {name} weighs gets smaller in one, so {name} has to work against it "
            "in the other",
            fix=f"turn the sign of the loss of {name} around: {wanted} it",
            location=here,
            symptom_location=used if used != here else None,
            tensors=names_of(flow, [product.leaf]),
        )


def _is_alone(case: Case, objective: Objective, leaf: int, term: Term) -> bool:
    """Whether no other term of its loss holds a multiplier, and steps go down its gradient."""
    owners = [case.dataflow.log.optimizers[each] for each in case.histories.optimizers_of(leaf)]
    return not objective.takes_beside(leaf, {term.row}) and not any(each.maximizes for each in owners)
