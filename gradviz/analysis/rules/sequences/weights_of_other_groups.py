"""GV850."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import line_in_function_of, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding, Location, location_of_line
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.formulas.products import product_of
from gradviz.analysis.rules.bases.formulas.shares_of_groups import shares_of_one
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, argument, calls_in_training
from gradviz.analysis.rules.bases.samples.ends_of_edges import end_of_edges, indexes_of
from gradviz.graph.call_log import Call, TensorUse


class WeightsOfOtherGroups(Rule):
    """Weights add up to 1 in the groups of one index, and are added up in the groups of another one.

    What it finds
    -------------
    Exponentials that are divided by their sums over the groups of one index, ``e / total[source]``, and that weigh rows
    which ``index_add`` or ``scatter_add`` then adds up by another index, ``target``, where both indexes are two rows or
    columns of one tensor, as the ends of the edges of a graph are. Amounts that are never negative are left alone: each
    node shares out what it has, as in a random walk. It is a note where the same weights are used again and again.

    Why it matters
    --------------
    An attention is a weighted mean of what arrives at a node. Normalized over what leaves a node, the weights that meet
    add up to anything: nodes with many edges get large sums, and others hardly anything.

    Example
    -------
    head, score = torch.nn.Linear(4, 3), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*head.parameters(), *score.parameters()], lr=0.1)
    edges = torch.randint(0, 6, (2, 30))
    source, target = edges
    for step in range(4):
        x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))
        e = torch.exp(score(x[source] + x[target]))
        weights = e / torch.zeros(6, 1).index_add(0, source, e)[source]
        total = torch.zeros(6, 4).index_add(0, target, weights * x[source])
        loss = torch.nn.functional.cross_entropy(head(total), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    head, score = torch.nn.Linear(4, 3), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*head.parameters(), *score.parameters()], lr=0.1)
    edges = torch.randint(0, 6, (2, 30))
    source, target = edges
    for step in range(4):
        x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))
        e = torch.exp(score(x[source] + x[target]))
        weights = e / torch.zeros(6, 1).index_add(0, target, e)[target]
        total = torch.zeros(6, 4).index_add(0, target, weights * x[source])
        loss = torch.nn.functional.cross_entropy(head(total), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV850"
    name = "weights_of_other_groups"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        told = set[Location | None]()
        # Of groups that have one value each, the index is the mistake.
        alone = {each.division for shares in shares_of_one(flow) for each in shares}
        for rows in calls_in_training(flow, ADDS):
            found = [each for row in rows if (each := _other_sum(flow, row)) is not None]
            if len(found) < len(rows) or not alone.isdisjoint(each.division for each in found):
                continue
            if all(_shares_out(flow, row, each) for row, each in zip(rows, found, strict=True)):
                continue
            finding = self._finding(flow, rows[-1], found[-1], is_walk=_is_walk(flow, rows, found))
            if finding.location not in told:
                told.add(finding.location)
                yield finding

    def _finding(self, flow: Dataflow, row: int, found: _Weights, *, is_walk: bool) -> Finding:
        total = found.total
        location, symptom = location_of_line(line_in_function_of(flow, total, row)), location_of_call(flow, row)
        name = plain_name(flow.log.calls[row].function)
        return self.finding(
            f"the weights are divided by their sums over the groups of one end of the edges, and {name}() adds up what "
            "they weigh by the other end: the weights that meet do not add up to 1",
            symptom="grad_wrong",
            why="each node should get a weighted mean of what arrives at it; like this, nodes with many edges get "
            "more. It is only right where nodes share out what they have, as in a random walk",
            fix="add up the exponentials by the index by which the weighted rows are added up: "
            "torch.zeros(n, 1).index_add(0, target, e)[target]",
            location=location,
            symptom_location=symptom if symptom != location else None,
            severity="note" if is_walk else self.severity,
        )


class _Weights(Struct, frozen=True):
    division: int
    """The call that divided the exponentials."""
    total: int
    """The call that added up what they were divided by."""


ADDS = frozenset({"index_add", "scatter_add"})
_SUMS = ADDS | {"scatter_reduce"}
_KEEPS = SHAPE_ONLY | {"dropout", "to", "float", "half", "clamp", "clamp_min", "detach"}
_MAX_FOLLOWED = 24
_CHOOSES = frozenset({"getitem", "index_select", "gather"})
_CUTS_OFF = frozenset({"relu", "relu6", "sigmoid", "softplus", "square"})
_SIDES = 2


def _shares_out(flow: Dataflow, row: int, found: _Weights) -> bool:
    """Whether what is weighed are amounts: never below zero, and not because an activation of a layer cut them off."""
    factors = list(_factors(flow, row, found))
    return bool(factors) and all(_is_amount(flow, factor, row) for factor in factors)


def _factors(flow: Dataflow, row: int, found: _Weights) -> Iterator[int]:
    """What a call adds up, apart from the weights."""
    added = _added(flow.log.calls[row])
    waiting, count = [] if added is None else [(added.tensor, row)], 0
    while waiting and count < _MAX_FOLLOWED:
        count += 1
        given, before = waiting.pop()
        made = flow.newest_producer(given, before)
        call = None if made is None else flow.log.calls[made]
        if made == found.division:
            continue
        name = "" if call is None else plain_name(call.function)
        if made is not None and call is not None and name in ("mul", "einsum"):
            waiting += [(use.tensor, made) for use in call.inputs]
        elif made is not None and call is not None and name in _KEEPS and call.inputs:
            waiting.append((call.inputs[0].tensor, made))
        else:
            yield given


def _is_amount(flow: Dataflow, tensor: int, row: int) -> bool:
    values = flow.values(tensor, row)
    if values is None or values.minimum is None or values.minimum < 0:
        return False
    for _, call in flow.makers(tensor, row, _MAX_FOLLOWED):
        if plain_name(call.function) not in _KEEPS | _CHOOSES:
            return plain_name(call.function) not in _CUTS_OFF
    return True


def _is_walk(flow: Dataflow, rows: Sequence[int], found: Sequence[_Weights]) -> bool:
    """Whether the same weights move what they have moved before, between any two steps."""
    steps = Counter((each.division, flow.step_before(row)) for row, each in zip(rows, found, strict=True))
    return min(steps.values()) > 1


def _other_sum(flow: Dataflow, row: int) -> _Weights | None:
    """The weights of what a call adds up, if the sums by which they were divided are over the other index."""
    call = flow.log.calls[row]
    index, added = indexes_of(flow, call), _added(call)
    if index is None or added is None:
        return None
    _, end = end_of_edges(flow, index, row)
    for divided, division in _divisions_above(flow, added.tensor, row):
        total = _sum_taken(flow, divided, division)
        own = None if total is None else indexes_of(flow, flow.log.calls[total])
        if total is None or own is None:
            continue
        _, other = end_of_edges(flow, own, total)
        if end[0] == other[0] and end[1] != other[1]:
            return _Weights(divided, total)
    return None


def _added(call: Call) -> TensorUse | None:
    return argument(call, 3, "source") or argument(call, 3, "src")


def _divisions_above(flow: Dataflow, tensor: int, row: int) -> Iterator[tuple[int, Call]]:
    """Divisions of exponentials among the factors of what is added up."""
    waiting, count = [(tensor, row)], 0
    while waiting and count < _MAX_FOLLOWED:
        count += 1
        given, before = waiting.pop()
        made = flow.newest_producer(given, before)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or not call.live_inputs:
            continue
        name = plain_name(call.function)
        if name == "div":
            above = flow.makers_above(call.inputs[0].tensor, made, _MAX_FOLLOWED, lambda each: each.inputs[:1])
            if any(plain_name(each.function) == "exp" for _, each in above):
                yield made, call
        elif name in _KEEPS and _size(flow, call.inputs[0].tensor) == _size(flow, given):
            waiting.append((call.inputs[0].tensor, made))
        elif name in ("mul", "einsum") and product_of(call) is not None:
            waiting += [(use.tensor, made) for use in call.live_inputs]


def _size(flow: Dataflow, tensor: int) -> int:
    return prod(shape_of(flow, tensor))


def _sum_taken(flow: Dataflow, row: int, division: Call) -> int | None:
    """The call that added up, by an index, what a division divides by for each row."""
    if len(division.inputs) != _SIDES:
        return None
    rows = shape_of(flow, division.inputs[0].tensor)[:1]
    for made, call in flow.makers(division.inputs[1].tensor, row, _MAX_FOLLOWED):
        name = plain_name(call.function)
        if name in _SUMS:
            added = _added(call)
            is_of_rows = added is not None and shape_of(flow, added.tensor)[:1] == rows
            return made if is_of_rows else None
        if name not in _KEEPS | _CHOOSES | {"add"}:
            return None
    return None
