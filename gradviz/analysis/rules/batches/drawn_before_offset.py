"""GV871."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import PARTS, SHAPE_ONLY
from gradviz.analysis.rules.bases.samples.drawn_indexes import bound_of, draws_of
from gradviz.graph.call_log import Call


class DrawnBeforeOffset(Rule):
    """Rows are drawn from the beginning of a table whose rows of that kind stand behind an offset.

    What it finds
    -------------
    One table for two kinds of rows, such as users and then items. Data choose rows of the second kind, as many as
    ``randint()`` is asked for, but what it draws is not moved behind the first kind, and is compared with the same as
    the rows that the data choose.

    Why it matters
    --------------
    The negatives of a ranking loss are then rows of the first kind. Nothing pushes down what no data prefer, and both
    kinds are pulled apart, which the loss rewards and a ranking does not.

    Example
    -------
    nodes = torch.nn.Parameter(torch.randn(8 + 30, 4) * 0.1)
    optimizer = torch.optim.SGD([nodes], lr=0.1)
    for step in range(4):
        users, liked = torch.arange(8), torch.arange(8) * 3 + 8 + step
        others = torch.randint(0, 30, (8,))
        better = (nodes[users] * nodes[liked]).sum(1) - (nodes[users] * nodes[others]).sum(1)
        loss = torch.nn.functional.softplus(-better).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    nodes = torch.nn.Parameter(torch.randn(8 + 30, 4) * 0.1)
    optimizer = torch.optim.SGD([nodes], lr=0.1)
    for step in range(4):
        users, liked = torch.arange(8), torch.arange(8) * 3 + 8 + step
        others = 8 + torch.randint(0, 30, (8,))
        better = (nodes[users] * nodes[liked]).sum(1) - (nodes[users] * nodes[others]).sum(1)
        loss = torch.nn.functional.softplus(-better).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV871"
    name = "drawn_before_offset"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow = case.dataflow
        pairs: dict[int | None, list[_Pair]] = defaultdict(list)
        for pair in _pairs(flow):
            pairs[flow.log.calls[pair.draw].call_site].append(pair)
        for found in pairs.values():
            steps = {flow.step_before(each.drawn.row) for each in found}
            if len(steps) >= _MIN_STEPS and all(each.given.lowest >= each.offset for each in found):
                yield self._finding(flow, found[-1])

    def _finding(self, flow: Dataflow, found: _Pair) -> Finding:
        location, used = two_lines(flow, found.draw, found.drawn.row)
        return self.finding(
            f"rows 0 to {found.bound - 1:,} of {found.rows:,} are drawn, and compared with the same as the rows of the "
            f"data, which all stand at {found.offset:,} or behind it",
            symptom="grad_wrong",
            why=f"{found.rows:,} rows are {found.offset:,} of one kind and then {found.bound:,} of another, and the "
            "numbers that are drawn count those of the second kind from 0",
            fix=f"move what is drawn behind the first kind: {found.offset} + torch.randint({found.bound}, ...)",
            location=location,
            symptom_location=used,
            evidence={"rows": found.rows, "drawn_below": found.bound, "lowest_of_data": int(found.given.lowest)},
        )


class _Lookup(Struct, frozen=True):
    row: int
    table: int
    index: int
    lowest: float
    """Of its indexes."""


class _Pair(Struct, frozen=True):
    """Rows that are drawn, and rows of the same table and step that data choose, in the same role."""

    draw: int
    drawn: _Lookup
    given: _Lookup
    rows: int
    """Of the table."""
    bound: int
    """The number below which was drawn."""

    @property
    def offset(self) -> int:
        return self.rows - self.bound


_LOOKS_UP = frozenset({"getitem", "index_select", "embedding"})
_COMPARE = frozenset({
    "mul", "matmul", "bmm", "einsum", "sub", "cosine_similarity", "cdist", "pairwise_distance", "cat", "bilinear",
})  # fmt: skip
_MIN_STEPS = 3
_TWO = 2


def _pairs(flow: Dataflow) -> Iterator[_Pair]:
    by_step: dict[tuple[int, int], list[_Lookup]] = defaultdict(list)
    for row, call in calls_named(flow, _LOOKS_UP):
        found = _lookup(flow, row, call)
        if found is not None:
            by_step[found.table, flow.step_before(row)].append(found)
    for (table, _), lookups in by_step.items():
        rows = shape_of(flow, table)[0]
        if len(lookups) < _TWO:
            continue
        drawn = {each.row: draws_of(flow, each.index, each.row) for each in lookups}
        given = [each for each in lookups if not drawn[each.row]]
        for each in lookups:
            bounds = {bound_of(flow, draw) for draw in drawn[each.row]}
            bound = bounds.pop() if len(bounds) == 1 else None
            if bound is not None and 0 < bound < rows:
                for other in given:
                    if _have_one_role(flow, each, other):
                        yield _Pair(drawn[each.row][0], each, other, rows, bound)


def _lookup(flow: Dataflow, row: int, call: Call) -> _Lookup | None:
    """A call that chooses rows of a table through which a gradient flows, by a tensor of indexes."""
    if len(call.inputs) != _TWO or not call.outputs or not flow.has_step_after(row):
        return None
    name = plain_name(call.function)
    if (name == "getitem" and call.scalars) or (name == "index_select" and call.scalars.get("1", 0) != 0):
        return None  # along another axis
    table, index = call.inputs[:: -1 if name == "embedding" else 1]
    values = flow.values(index.tensor, row)
    is_integer = flow.log.tensors[index.tensor].facts.dtype in ("int64", "int32")
    if not table.requires_grad or not is_integer or values is None or values.minimum is None:
        return None
    return _Lookup(row, table.tensor, index.tensor, values.minimum)


def _have_one_role(flow: Dataflow, one: _Lookup, other: _Lookup) -> bool:
    """Whether both are compared with the same, or with each other by a difference."""
    mine, theirs = _compared_with(flow, one), _compared_with(flow, other)
    shared = {tensor for _, tensor in mine} & {tensor for _, tensor in theirs}
    return bool(shared) or ("sub", other.index) in mine


def _compared_with(flow: Dataflow, lookup: _Lookup) -> set[tuple[str, int]]:
    """What calls compute with the chosen rows, and the name of the call."""
    found, waiting = set[tuple[str, int]](), [(flow.log.calls[lookup.row].outputs[0].tensor, lookup.row)]
    while waiting:
        tensor, before = waiting.pop()
        for row in flow.users(tensor, before):
            call = flow.log.calls[row]
            name = plain_name(call.function)
            if name in _COMPARE:
                found |= {(name, _whole(flow, use.tensor, row)) for use in call.inputs if use.tensor != tensor}
            elif name in _SHAPES and call.outputs:
                waiting.append((call.outputs[0].tensor, row))
    return found


def _whole(flow: Dataflow, tensor: int, before: int) -> int:
    """The tensor of which this one is another shape; of chosen rows, the indexes that chose them."""
    for _ in range(_MAX_SHAPES):
        row = flow.newest_producer(tensor, before)
        call = None if row is None else flow.log.calls[row]
        if row is None or call is None or not call.inputs:
            break
        chosen = _lookup(flow, row, call) if plain_name(call.function) in _LOOKS_UP else None
        if chosen is not None:
            return chosen.index
        if plain_name(call.function) not in _SHAPES:
            break
        tensor, before = call.inputs[0].tensor, row
    return tensor


_SHAPES = SHAPE_ONLY - PARTS
_MAX_SHAPES = 4
