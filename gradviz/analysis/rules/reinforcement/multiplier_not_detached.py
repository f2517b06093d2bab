"""GV748."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import at_line, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import names_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.analysis.rules.bases.losses.objectives import objectives
from gradviz.analysis.rules.bases.losses.signed_terms import is_number_first, number_of
from gradviz.graph.call_log import TensorUse


class MultiplierNotDetached(Rule):
    """The loss of a multiplier trains what it weighs as well, or the other way round.

    What it finds
    -------------
    Two losses of which one multiplies a quantity with a constant copy of a multiplier (``alpha.detach() * log_prob``),
    and the other subtracts the product of both with the gradients of both (``-log_alpha * (log_prob + entropy)``); and
    a step that uses the sum of the two gradients. One optimizer may train both if the copy is of that multiplier.

    Why it matters
    --------------
    The two losses pull in opposite directions: the policy makes small what the multiplier is to hold up. Where the
    second loss is not cut off from the policy, its gradient takes back the first one's, or turns it around.

    Example
    -------
    policy, log_alpha = torch.nn.Linear(4, 1), torch.zeros((), requires_grad=True)
    optimizers = [torch.optim.SGD(policy.parameters(), lr=0.1), torch.optim.SGD([log_alpha], lr=0.1)]
    for step in range(3):
        score = policy(torch.randn(8, 4)).square()
        loss = (log_alpha.exp().detach() * score + (score - 1).square()).mean()
        loss = loss - (log_alpha * (score - 0.5)).mean()
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()

    Instead
    -------
    policy, log_alpha = torch.nn.Linear(4, 1), torch.zeros((), requires_grad=True)
    optimizers = [torch.optim.SGD(policy.parameters(), lr=0.1), torch.optim.SGD([log_alpha], lr=0.1)]
    for step in range(3):
        score = policy(torch.randn(8, 4)).square()
        loss = (log_alpha.exp().detach() * score + (score - 1).square()).mean()
        loss = loss - (log_alpha * (score.detach() - 0.5)).mean()
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    """

    code = "GV748"
    name = "multiplier_not_detached"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        weighed = list(_products(case)) if case.histories.steps else []
        told = set[int | None]()
        both = [each for each in weighed if each.multiplier is not None and each.quantity]
        for one, other in product(both, weighed):
            site = case.dataflow.log.calls[one.row].call_site
            leaked = _leaked(case, one, other) if one.opposes(other) and site not in told else None
            if leaked is not None:
                told.add(site)
                yield self._finding(case, one, other, leaked)

    def _finding(self, case: Case, one: _Product, other: _Product, leaked: frozenset[int]) -> Finding:
        flow, together = case.dataflow, case.histories.together
        location, shown = two_lines(flow, one.row, other.row)
        is_of_multiplier = one.multiplier in leaked
        kept = "multiplier" if is_of_multiplier else "quantity"
        return self.finding(
            f"this product gives a gradient to {together(sorted(leaked))} as well, whose own loss{at_line(shown)} has "
            "the product with the opposite sign, and a step uses the sum of both",
            symptom="grad_wrong",
            why="a multiplier grows where what it weighs is too large, and that is to become smaller: each loss has to "
            "train one of the two only",
            fix=f"detach() the {kept} here"
            + (": alpha.detach() * log_prob" if is_of_multiplier else ": log_alpha * (log_prob.detach() + target)"),
            location=location,
            symptom_location=shown,
            tensors=names_of(flow, sorted(leaked)),
        )


class _Product(Struct, frozen=True):
    """A product of a multiplier and a quantity, in the loss of one backward call."""

    row: int
    backward: int
    sign: int
    multiplier: int | None
    """The leaf of the multiplier, if it gets a gradient here."""
    quantity: frozenset[int]
    """The trained leaves of the quantity that get a gradient here."""
    tensors: dict[int, int]
    """The quantity, before numbers were added to it and it was averaged or detached, with the sign that it has."""
    detached_from: int | None = None
    """The leaf that a multiplier without a gradient was computed from."""

    def opposes(self, other: _Product) -> bool:
        """Whether both are products of the same quantity, with opposite signs."""
        common = self.tensors.keys() & other.tensors.keys()
        return any(self.sign * self.tensors[each] != other.sign * other.tensors[each] for each in common)


_MAX_CHAIN = 10
_CHAIN = frozenset({"add", "sub", "neg", "mean", "sum", "detach", "data", *SHAPE_ONLY})


def _products(case: Case) -> Iterator[_Product]:
    flow = case.dataflow
    for objective in objectives(case):
        seen = set[tuple[int, int]]()
        for term in objective.terms:
            call = flow.log.calls[term.row]
            name, sign = plain_name(call.function), term.sign
            if name not in ("mul", "addcmul") or not call.live_inputs or (term.row, term.sign) in seen:
                continue
            seen.add((term.row, term.sign))
            factors = call.inputs if name == "mul" else call.inputs[1:]
            if name == "addcmul" and number_of(call, "value", missing=1.0) < 0:
                sign = -sign
            if len(factors) == 1:
                yield _product(case, term.row, objective.backward, sign, None, factors[0])
            else:
                for use, quantity in (factors, factors[::-1]):
                    if prod(shape_of(flow, use.tensor)) == 1:
                        yield _product(case, term.row, objective.backward, sign, use, quantity)


def _product(
    case: Case, row: int, backward: int, sign: int, multiplier: TensorUse | None, quantity: TensorUse
) -> _Product:
    leaf = None if multiplier is None or not multiplier.requires_grad else _only_leaf(case, multiplier, row)
    leaves = _leaves(case, quantity, row) if quantity.requires_grad else frozenset()
    source = None if multiplier is None or multiplier.requires_grad else _detached_leaf(case, multiplier, row)
    return _Product(row, backward, sign, leaf, leaves, dict(_chain(case.dataflow, quantity, row)), source)


def _detached_leaf(case: Case, use: TensorUse, row: int) -> int | None:
    """The trained number that a multiplier without a gradient was computed from."""
    tensor = use.tensor
    for made, call in case.dataflow.makers(tensor, row, _MAX_CHAIN):
        if len(call.inputs) != 1:
            return None
        tensor = call.inputs[0].tensor
        if tensor in case.histories.trained:
            return tensor if made >= case.dataflow.step_before(row) else None
    return None


def _leaves(case: Case, use: TensorUse, row: int) -> frozenset[int]:
    leaves, _ = case.histories.live_leaves((use.tensor,), row)
    return (leaves | ({use.tensor} if use.is_live_leaf else set())) & case.histories.trained


def _only_leaf(case: Case, use: TensorUse, row: int) -> int | None:
    leaves = _leaves(case, use, row)
    leaf = next(iter(leaves)) if len(leaves) == 1 else None
    return leaf if leaf is not None and prod(shape_of(case.dataflow, leaf)) == 1 else None


def _chain(flow: Dataflow, use: TensorUse, row: int) -> Iterator[tuple[int, int]]:
    """A quantity, and what it was before numbers were added to it and it was averaged or detached, with its sign."""
    tensor, sign = use.tensor, 1
    for _ in range(_MAX_CHAIN):
        yield tensor, sign
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or len(call.inputs) != 1 or plain_name(call.function) not in _CHAIN:
            return
        if plain_name(call.function) == "neg" or (plain_name(call.function) == "sub" and is_number_first(call)):
            sign = -sign
        tensor, row = call.inputs[0].tensor, made


def _leaked(case: Case, one: _Product, other: _Product) -> frozenset[int] | None:
    """What gets a gradient of both products, of which the second one is its own, before one step uses it."""
    if one.row == other.row:
        return None
    if other.multiplier is None and other.quantity & one.quantity:
        leaked = other.quantity & one.quantity
    elif other.multiplier is not None and other.multiplier == one.multiplier and not other.quantity:
        leaked = frozenset({other.multiplier})
    else:
        return None
    own = case.histories.optimizers_of(one.multiplier if one.multiplier is not None else -1)
    apart = all(set(own).isdisjoint(case.histories.optimizers_of(leaf)) for leaf in one.quantity)
    apart |= other.detached_from is not None and other.detached_from == one.multiplier
    return leaked if apart and _is_used_together(case, one.backward, other.backward, min(leaked)) else None


def _is_used_together(case: Case, one: int, other: int, leaf: int) -> bool:
    """Whether a step uses the gradients of two backward calls, between which nothing clears them."""
    flow, histories = case.dataflow, case.histories
    first, last = sorted((one, other))
    steps = sorted(row for each in histories.optimizers_of(leaf) for row in histories.steps_by_optimizer.get(each, []))
    step = next((row for row in steps if row > last), None)
    if step is None or any(first < row < last for row in steps):
        return False
    clears = (*flow.rows_of_kind("zero_grad"), *(row for row in flow.users(leaf) if _sets_gradient(flow, row)))
    return not any(first < row < step and _is_of(flow, row, leaf) for row in clears)


def _sets_gradient(flow: Dataflow, row: int) -> bool:
    return flow.log.calls[row].function == "torch.Tensor.grad.__set__"


def _is_of(flow: Dataflow, row: int, leaf: int) -> bool:
    return any(use.tensor == leaf for use in flow.log.calls[row].inputs)
