"""GV686."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.factors import trained_leaf_behind
from gradviz.analysis.rules.bases.losses.objectives import (
    has_turned_gradients,
    leaves_with_other_gradients,
    objectives,
)
from gradviz.analysis.rules.bases.losses.signed_terms import Term
from gradviz.graph.call_log import Call, TensorUse


class WeightsOfLossesFall(Rule):
    """The weights of losses are trained by the losses that they weigh, and nothing holds them.

    What it finds
    -------------
    A trained tensor, with a few numbers or one, that a loss takes only as the weights of errors which are never
    negative: itself, or behind ``exp()``, ``sigmoid()``, ``softmax()``; and no other term of the loss, such as the
    sum of the logarithms, and no other gradient for it.

    Why it matters
    --------------
    The gradient of such a weight is the error itself. So it falls at every step: to zero and below, or, with
    ``softmax()``, until all the weight is on the smallest error. The loss falls with it, and looks like training.

    Example
    -------
    model = torch.nn.Linear(4, 2)
    weights = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([*model.parameters(), weights], lr=0.01)
    for step in range(3):
        x, y = torch.randn(16, 4), torch.randn(16, 2)
        errors = (model(x) - y).square().mean(0)
        loss = (weights * errors).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 2)
    logvars = torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.Adam([*model.parameters(), logvars], lr=0.01)
    for step in range(3):
        x, y = torch.randn(16, 4), torch.randn(16, 2)
        errors = (model(x) - y).square().mean(0)
        loss = (torch.exp(-logvars) * errors + logvars).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV686"
    name = "weights_of_losses_fall"
    severity = "warning"
    yields_to = ("multiplier_not_detached", "multiplier_reversed")

    def check(self, case: Case) -> Iterator[Finding]:
        found = [each for each in objectives(case) if each.is_whole]
        others = leaves_with_other_gradients(case.histories) if found else frozenset()
        told = set[int]()
        for objective in found:
            weighed: dict[int, list[Term]] = {}
            for term in (*objective.last_terms, *(each for each in objective.terms if _is_ratio(case, each))):
                leaf = _weight_of_an_error(case, term)
                if leaf is not None:
                    weighed.setdefault(leaf, []).append(term)
            for leaf, terms in weighed.items():
                is_alone = leaf not in others and not objective.takes_beside(leaf, {each.row for each in terms})
                if leaf not in told and is_alone and _is_lowered(case, leaf):
                    told.add(leaf)
                    yield self._finding(case, leaf, terms[0])

    def _finding(self, case: Case, leaf: int, term: Term) -> Finding:
        flow = case.dataflow
        name, is_shared = case.tensor_name(leaf), _is_shared(case, leaf, term)
        return self.finding(
            f"{name} weighs errors, and is trained by nothing but these errors: "
            + ("all the weight moves to the smallest of them" if is_shared else "the weights fall at every step"),
            symptom="grad_wrong",
            why="the gradient of a weight is the error that it weighs, which is never negative, and no other term of "
            "the loss holds the weight",
            fix=f"learn a variance instead: torch.exp(-{name}) * error + {name}; or keep the weights fixed",
            location=location_of_call(flow, term.row),
            tensors=names_of(flow, [leaf]),
        )


_FEW = 64
_BOTH = 2
_PRODUCTS = frozenset({"mul", "dot", "vdot", "inner", "mv", "matmul", "einsum", "tensordot", "div"})
_ON_THE_WAY = frozenset({
    "exp", "sigmoid", "softmax", "softplus", "abs", "square", "getitem", "select", "unbind", "view", "reshape",
    "squeeze", "unsqueeze", "clamp", "relu", "mul", "div", "to", "float", "clone", "expand", "neg", "reciprocal",
    "rsqrt", "pow", "exp2", "add", "sub", "sqrt",
})  # fmt: skip


def _is_ratio(case: Case, term: Term) -> bool:
    """Whether a term is an error that is divided by something with a gradient."""
    call = case.dataflow.log.calls[term.row]
    return plain_name(call.function) == "div" and len(call.live_inputs) == _BOTH


def _weight_of_an_error(case: Case, term: Term) -> int | None:
    """The trained leaf that weighs an error in a product; None if a term is none such."""
    call, flow = case.dataflow.log.calls[term.row], case.dataflow
    live = call.live_inputs
    if term.sign < 0 or not term.is_sure or plain_name(call.function) not in _PRODUCTS or len(live) != 2:
        return None
    is_ratio = plain_name(call.function) == "div"
    for weight, error in (reversed(live),) if is_ratio else (live, reversed(live)):
        leaf, _ = trained_leaf_behind(case.histories, weight.tensor, term.row, _ON_THE_WAY, beside_data=True)
        is_small = leaf is not None and prod(shape_of(flow, leaf)) <= _FEW
        if is_small and _is_never_negative(flow, error, term.row) and _fits(flow, weight, error):
            return leaf
    return None


def _is_never_negative(flow: Dataflow, use: TensorUse, row: int) -> bool:
    """Whether it is an error: computed from a model, and never negative when this line ran."""
    call = flow.log.calls[row]
    place = next(place for place, each in enumerate(call.inputs) if each is use)
    same = [each for each in range(max(0, row - _FAR), row + 1) if _is_alike(flow.log.calls[each], call)]
    values = [flow.values_of(flow.log.calls[each].inputs[place], each) for each in same]
    return not use.is_live_leaf and all(
        each is not None and each.minimum is not None and each.minimum >= 0 for each in values
    )


_FAR = 2_000


def _is_alike(call: Call, other: Call) -> bool:
    return (call.call_site, call.function, len(call.inputs)) == (other.call_site, other.function, len(other.inputs))


def _fits(flow: Dataflow, weight: TensorUse, error: TensorUse) -> bool:
    """Whether there is one weight for each error: not one for each sample, or for each element of something else."""
    return prod(shape_of(flow, weight.tensor)) == prod(shape_of(flow, error.tensor))


def _is_lowered(case: Case, leaf: int) -> bool:
    """Whether steps go down the gradient of a leaf: a program may go up with the weights of the worst groups."""
    owners = [case.dataflow.log.optimizers[each] for each in case.histories.optimizers_of(leaf)]
    return not any(each.maximizes for each in owners) and not has_turned_gradients(case.dataflow)


def _is_shared(case: Case, leaf: int, term: Term) -> bool:
    """Whether the weights add up to 1."""
    above = case.dataflow.ancestors(case.dataflow.log.calls[term.row].outputs[0].tensor, term.row + 1, 0)
    calls = (case.dataflow.log.calls[row] for row in above)
    return any(
        plain_name(call.function) == "softmax" and any(use.tensor == leaf for use in call.inputs) for call in calls
    )
