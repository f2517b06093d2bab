"""GV861."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.axes import axes_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.products import is_square
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, number_of
from gradviz.graph.call_log import Call


class WorstPlansKept(Rule):
    """Of plans that were drawn, those of the highest cost are kept.

    What it finds
    -------------
    The cross-entropy method: plans drawn at random, scores of them, ``topk()`` or a descending order of the scores, and
    the mean of the chosen plans. The scores are sums of squares and absolute values, of which one is a distance, and
    the largest are chosen. It is a note: plans that should lead far away look the same.

    Why it matters
    --------------
    The mean goes where the cost is highest: away from the goal, in each round further. The model of the world may be
    right, and learns from data that nobody wanted.

    Example
    -------
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    goal = torch.tensor([1.0, -1.0])
    for step in range(3):
        with torch.no_grad():
            mean, state = torch.zeros(2), torch.zeros(64, 2)
            for _ in range(3):
                plans = mean + torch.randn(64, 2)
                cost = (model(torch.cat([state, plans], 1)) - goal).square().sum(1)
                mean = plans[cost.topk(8).indices].mean(0)
        action = mean.expand(64, 2)
        loss = (model(torch.cat([state, action], 1)) - action).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    goal = torch.tensor([1.0, -1.0])
    for step in range(3):
        with torch.no_grad():
            mean, state = torch.zeros(2), torch.zeros(64, 2)
            for _ in range(3):
                plans = mean + torch.randn(64, 2)
                cost = (model(torch.cat([state, plans], 1)) - goal).square().sum(1)
                mean = plans[cost.topk(8, largest=False).indices].mean(0)
        action = mean.expand(64, 2)
        loss = (model(torch.cat([state, action], 1)) - action).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV861"
    name = "worst_plans_kept"
    severity = "note"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, frozenset({"topk", "argsort", "sort"})):
            if call.call_site in told or not call.inputs or not _takes_the_largest(call):
                continue
            distance = _distance_in(flow, call.inputs[0].tensor, row)
            if distance is not None and _is_mean_of_plans(flow, row):
                told.add(call.call_site)
                yield self._finding(flow, row, distance)

    def _finding(self, flow: Dataflow, row: int, distance: int) -> Finding:
        location, made = two_lines(flow, row, distance)
        return self.finding(
            "of the plans that were drawn, those with the largest distances are kept: if the distances are costs, the "
            "worst plans",
            symptom="grad_wrong",
            why="the mean of the plans goes where their scores are highest",
            fix="for costs, keep the lowest: cost.topk(k, largest=False)",
            location=location,
            symptom_location=made,
        )


_ADDS = frozenset({"add", "sum", "mean", "stack", "cat", "mul", "div", *SHAPE_ONLY})
_SIZES = frozenset({"abs", "norm", "vector_norm", "cdist", "square"})
_ZEROS = frozenset({"zeros", "zeros_like", "new_zeros"})
_DRAWS = frozenset({"randn", "rand", "normal", "randn_like", "rand_like", "uniform", "sample", "rsample"})
_SPREADS = frozenset({"mean", "std", "var", "std_mean", "var_mean"})
_BOTH = 2
_MAX_TERMS = 80


def _takes_the_largest(call: Call) -> bool:
    """Whether a call puts the largest first."""
    if plain_name(call.function) == "topk":
        return call.scalars.get("largest", call.scalars.get("3", True)) is True
    return call.scalars.get("descending", call.scalars.get("2")) is True


def _distance_in(flow: Dataflow, tensor: int, row: int) -> int | None:
    """A call that makes the size of a difference, of which scores are a sum; None if something in it may be negative,
    or if it has a history."""
    shape = shape_of(flow, tensor)
    if len(shape) != 1 or flow.log.tensors[tensor].requires_grad:
        return None
    waiting, seen, distance = [(tensor, row)], set[int](), None
    while waiting:
        part, before = waiting.pop()
        made = flow.newest_producer(part, before)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or len(seen) > _MAX_TERMS:
            return None
        if made in seen:
            continue
        seen.add(made)
        name = plain_name(call.function)
        if name in _SIZES or is_square(call):
            inner = flow.newest_producer(call.inputs[0].tensor, made)
            is_difference = inner is not None and plain_name(flow.log.calls[inner].function) == "sub"
            distance = made if is_difference or name == "cdist" else distance
        elif name in _ADDS and call.inputs and _keeps_signs(call, name):
            waiting += [(use.tensor, made) for use in call.inputs]
        elif name not in _ZEROS:
            return None
    return distance


def _keeps_signs(call: Call, name: str) -> bool:
    """Whether numbers beside what a call takes are not negative, and it multiplies no two tensors."""
    if name in ("mul", "div"):
        return len(call.inputs) == 1 and number_of(call, *OPERAND, missing=0.0) > 0
    numbers = (number_of(call, place, missing=0.0) for place in (*OPERAND, "alpha"))
    return name != "add" or min(numbers) >= 0


def _is_mean_of_plans(flow: Dataflow, row: int) -> bool:
    """Whether the chosen places take rows of what was drawn, and only the mean and spread of these are read."""
    call = flow.log.calls[row]
    places = {use.tensor for use in call.outputs if flow.log.tensors[use.tensor].facts.dtype == "int64"}
    places |= {  # the first ones of an order
        use.tensor
        for place in places
        for user in flow.users(place, row)
        if plain_name(flow.log.calls[user].function) == "getitem" and len(flow.log.calls[user].inputs) == 1
        for use in flow.log.calls[user].outputs
    }
    until = flow.next_of_kind("step", row)
    scores = flow.ancestors(call.inputs[0].tensor, row, flow.step_before(row))
    read = {use.tensor for each in scores for use in flow.log.calls[each].inputs}
    for place in places:
        for user in flow.users(place, row):
            taken = flow.log.calls[user]
            name = plain_name(taken.function)
            if user >= until or name not in ("getitem", "index_select") or len(taken.inputs) != _BOTH:
                continue
            plans = taken.inputs[0].tensor
            drawn = flow.ancestors(plans, user, flow.step_before(user))
            is_drawn = any(plain_name(flow.log.calls[each].function) in _DRAWS for each in drawn)
            if is_drawn and _is_read(flow, plans, read, scores) and _is_averaged(flow, taken.outputs[0].tensor, user):
                return True
    return False


def _is_read(flow: Dataflow, plans: int, read: set[int], scores: tuple[int, ...]) -> bool:
    """Whether the scores were computed from the plans."""
    return plans in read or any(use.tensor == plans for each in scores for use in flow.log.calls[each].outputs)


def _is_averaged(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether nothing reads a tensor but means and spreads over its rows."""
    users = [flow.log.calls[each] for each in flow.users(tensor, row)]
    rank = len(shape_of(flow, tensor))
    return bool(users) and all(
        plain_name(user.function) in _SPREADS and axes_of(user, rank) and 0 in (axes_of(user, rank) or ())
        for user in users
    )
