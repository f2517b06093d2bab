"""GV687."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.factors import trained_leaf_behind
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.losses.objectives import Objective, has_turned_gradients, objectives
from gradviz.analysis.rules.bases.losses.signed_terms import PRODUCTS, Term, is_number_first, number_of
from gradviz.graph.call_log import Call, TensorUse


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
            for each in _products(case, term, is_trained=False)
        }
        if has_turned_gradients(flow):
            return
        for objective in found:
            for term in objective.terms:
                leaf = _multiplier_of_constraint(case, term)
                if leaf is not None and leaf not in told and _is_alone(case, objective, leaf, term):
                    told.add(leaf)
                    yield self._of_one_loss(case, leaf, term)
        for objective in found:
            for term in objective.terms:
                for each in _products(case, term, is_trained=True):
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

    def _finding(self, case: Case, product: _Product, term: Term, weighed: int) -> Finding:
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


class _Product(Struct, frozen=True):
    """A multiplier times something, of which one has a gradient."""

    leaf: int
    """The trained tensor that the multiplier is computed from."""
    tensor: int
    """What is multiplied."""
    maker: tuple[str, int | None]
    """The function and the line that made it."""
    sign: int
    """1 if the loss adds it."""


_MULTIPLIERS = frozenset({
    "exp", "softplus", "sigmoid", "detach", "clamp", "relu", "abs", "view", "reshape", "squeeze", "to", "float", "data",
    "clone", "neg", "expand", "getitem", "unsqueeze",
})  # fmt: skip
_KEEPS = frozenset({
    "detach", "view", "reshape", "squeeze", "unsqueeze", "to", "float", "clone", "mean", "data", "expand", "add", "sub",
    "neg", "mul",
})  # fmt: skip
_MOST_CALLS = 10


def _products(case: Case, term: Term, *, is_trained: bool) -> Iterator[_Product]:
    """The products of a term with a multiplier that has a gradient, or of which only the other factor has one."""
    flow = case.dataflow
    factors, sign = _factors(flow.log.calls[term.row])
    live = [use for use in factors if use.requires_grad]
    dead = [use for use in factors if not use.requires_grad]
    if len(live) != 1 or len(dead) != 1:
        return
    multiplier, other = (live[0], dead[0]) if is_trained else (dead[0], live[0])
    leaf, turned = trained_leaf_behind(case.histories, multiplier.tensor, term.row, _MULTIPLIERS, beside_data=False)
    if leaf is None:
        return
    is_one = flow.log.tensors[leaf].facts.shape in ((), (1,))
    if not is_one and not (_is_of_multipliers(flow, leaf, multiplier, term.row) and _has_limit(flow, other, term.row)):
        return
    for tensor, turn in _behind(flow, other.tensor, term.row):
        made = flow.newest_producer(tensor, term.row)
        if made is not None:
            maker = flow.log.calls[made]
            yield _Product(leaf, tensor, (maker.function, maker.call_site), turned * sign * turn * term.sign)


def _factors(call: Call) -> tuple[tuple[TensorUse, ...], int]:
    """The two tensors that a call multiplies, and the sign with which it adds their product."""
    name = plain_name(call.function)
    if name in PRODUCTS and len(call.inputs) == _BOTH:
        return call.inputs, 1
    if name == "addcmul":
        return call.inputs[1:], -1 if number_of(call, "value", missing=1.0) < 0 else 1
    return (), 1


def _is_of_multipliers(flow: Dataflow, leaf: int, multiplier: TensorUse, row: int) -> bool:
    """Whether a leaf has a multiplier for each of several constraints: a row of numbers, none of them below zero."""
    values = flow.values_of(multiplier, row)
    is_positive = values is not None and values.minimum is not None and values.minimum >= 0
    return len(flow.log.tensors[leaf].facts.shape) == 1 and is_positive


def _has_limit(flow: Dataflow, other: TensorUse, row: int) -> bool:
    """Whether what several multipliers weigh is the distance of something from limits."""
    made = value_maker(flow, other.tensor, row, through=frozenset({"detach", "data", "clone"}))
    return made is not None and plain_name(made[1].function) in ("sub", "add")


def _multiplier_of_constraint(case: Case, term: Term) -> int | None:
    """The trained number that a loss multiplies with ``cost - budget``, both with a gradient, and adds."""
    flow = case.dataflow
    factors, sign = _factors(flow.log.calls[term.row])
    if not all(use.requires_grad for use in factors) or not factors or not term.is_sure or sign * term.sign < 0:
        return None
    shapes = {shape_of(flow, use.tensor) for use in factors}
    is_one = shapes <= {(), (1,)}
    if not is_one and (len(shapes) > 1 or any(len(shape) != 1 for shape in shapes)):
        return None
    for multiplier, other in (factors, factors[::-1]):
        leaf, turned = trained_leaf_behind(case.histories, multiplier.tensor, term.row, _MULTIPLIERS, beside_data=False)
        made = flow.newest_producer(other.tensor, term.row)
        constraint = None if made is None else flow.log.calls[made]
        if leaf is None or turned < 0:
            continue
        if not is_one and not _is_of_multipliers(flow, leaf, multiplier, term.row):
            continue
        if made is None or constraint is None:
            continue
        is_difference = plain_name(constraint.function) in ("sub", "add") and len(constraint.live_inputs) == 1
        if is_difference and _is_of_limit(flow, other.tensor, made, constraint):
            return leaf
    return None


_BOTH = 2


def _is_of_limit(flow: Dataflow, tensor: int, row: int, call: Call) -> bool:
    """Whether a number is taken away from what a constraint limits, so that it is 0 at the limit.

    ``1 - agreement`` is an error, unless it becomes negative.
    """
    name = plain_name(call.function)
    if name == "sub" and not is_number_first(call):
        return call.inputs[0].requires_grad
    values = flow.values(tensor, row + 1)
    is_negative = values is not None and values.minimum is not None and values.minimum < 0
    return is_negative if name == "sub" else number_of(call, "1", "0", "other", missing=0.0) < 0


def _behind(flow: Dataflow, tensor: int, row: int) -> Iterator[tuple[int, int]]:
    """A tensor, and what it was made from by steps that keep or turn the sign: with the sign of each."""
    sign = 1
    for _ in range(_MOST_CALLS):
        yield tensor, sign
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or plain_name(call.function) not in _KEEPS or not call.inputs:
            return
        name = plain_name(call.function)
        if name == "mul" and len(call.inputs) > 1:
            return
        use = next(
            (each for each in call.inputs if flow.newest_producer(each.tensor, made) is not None), call.inputs[0]
        )
        is_taken_away = name == "sub" and (is_number_first(call) or use is not call.inputs[0])
        factor = number_of(call, "1", "0", "other", missing=1.0) if name == "mul" else 1.0
        sign *= -1 if name == "neg" or is_taken_away or factor < 0 else 1
        tensor, row = use.tensor, made


def _is_alone(case: Case, objective: Objective, leaf: int, term: Term) -> bool:
    """Whether no other term of its loss holds a multiplier, and steps go down its gradient."""
    owners = [case.dataflow.log.optimizers[each] for each in case.histories.optimizers_of(leaf)]
    return not objective.takes_beside(leaf, {term.row}) and not any(each.maximizes for each in owners)
