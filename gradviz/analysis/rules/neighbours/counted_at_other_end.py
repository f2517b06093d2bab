"""GV972."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name, two_lines
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.tensor_words import name_of
from gradviz.analysis.finding import Finding
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, value_maker
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, is_number_first, number_of
from gradviz.analysis.rules.bases.samples.ends_of_edges import (
    ADD_UP,
    CHOOSE,
    WHOLE,
    End,
    chosen_by,
    end_of_edges,
    index_of_rows,
    indexes_of,
    part_of,
)
from gradviz.graph.call_log import Call, ValueFacts


class CountedAtOtherEnd(Rule):
    """A mean over the neighbours of a node is divided by the number of edges at their other ends.

    What it finds
    -------------
    Rows that are chosen by one end of the edges (``x[src]``), added up at the other end, and divided by how many edges
    have a node at the end that chose. It is only told where the two numbers are known to differ: a node without an edge
    at the one end has some at the other, the smallest or largest indexes differ, or both ends were drawn. What is
    divided before its rows are chosen, so that each node shares out what it has, is left alone.

    Why it matters
    --------------
    What arrives at a node has as many parts as edges end there. Divided by the edges that begin there, it is no mean:
    a node that many point to, and that points to none, gets a sum that is far too large.

    Example
    -------
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    src, dst = torch.randint(0, 9, (20,)), torch.randint(0, 9, (20,))
    for step in range(3):
        x = model(torch.randn(9, 4))
        count = torch.zeros(9).index_add_(0, src, torch.ones(20)).clamp(min=1)
        gathered = torch.zeros(9, 2).index_add_(0, dst, x[src]) / count[:, None]
        loss = (x + gathered).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    Instead
    -------
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    src, dst = torch.randint(0, 9, (20,)), torch.randint(0, 9, (20,))
    for step in range(3):
        x = model(torch.randn(9, 4))
        count = torch.zeros(9).index_add_(0, dst, torch.ones(20)).clamp(min=1)
        gathered = torch.zeros(9, 2).index_add_(0, dst, x[src]) / count[:, None]
        loss = (x + gathered).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """

    code = "GV972"
    name = "counted_at_other_end"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        flow, told = case.dataflow, set[int | None]()
        for row, call in calls_named(flow, ("div", "mul")):
            if not call.live_inputs or call.call_site in told or not flow.has_step_after(row):
                continue
            found = _counted(flow, row)
            if found is not None and _differ(flow, found) and not _shares_out(flow, found):
                told.add(call.call_site)
                yield self._finding(flow, found)

    def _finding(self, flow: Dataflow, found: _Counted) -> Finding:
        location, divided = two_lines(flow, found.count, found.divided)
        names = [name_of(flow.log.tensors[each]) for each in found.indexes]
        counted, added = names if None not in names and len(set(names)) == len(names) else ("src", "dst")
        return self.finding(
            f"rows that {counted} chooses are added up at {added}, and the sums are divided by the number of edges at "
            f"{counted}: a mean divides by the number at {added}",
            symptom="grad_wrong",
            why=f"at each node as many rows arrive as it has edges in {added}",
            fix=f"count the edges at the end where the rows are added up: index_add_(0, {added}, ones)",
            location=location,
            symptom_location=divided,
        )


class _Counted(Struct, frozen=True):
    divided: int
    """The call that divides a sum of rows by a number of edges."""
    added: int
    """The call that added the rows up."""
    count: int
    """The call that counted the edges."""
    end: End
    """Which end of the edges was counted, and chose the rows."""
    indexes: tuple[int, int]
    """Of the end that was counted, and of that where the rows were added up."""


_OF_COUNT = SHAPE_ONLY | {"clamp", "clamp_min", "add", "max", "maximum", "long", "int", "expand"}
_INVERTS = frozenset({"reciprocal", "pow", "div"})
_ONES = frozenset({"ones", "ones_like", "new_ones"})
_ARRANGED = SHAPE_ONLY | {"mul", "add", "div"}
_DRAWS = frozenset({"randint"})
_COUNTS = frozenset({"bincount"})
_JOINS = frozenset({"stack", "cat"})
_TAKE_PART = frozenset({"unbind", "getitem", "select"})
_MAX_CALLS = 12
_TWO = 2


def _counted(flow: Dataflow, row: int) -> _Counted | None:
    """The sum of rows at one end of the edges that a call divides by the number of edges at the other end."""
    call = flow.log.calls[row]
    if len(call.inputs) != _TWO:
        return None
    is_product = plain_name(call.function) == "mul"
    for total, number in (call.inputs, call.inputs[::-1]) if is_product else (call.inputs,):
        added = value_maker(flow, total.tensor, row)
        counted = None if number.requires_grad else _count(flow, number.tensor, row, is_inverse=is_product)
        if added is None or counted is None or plain_name(added[1].function) not in ADD_UP:
            continue
        index, (count, (counted_by, end)) = index_of_rows(flow, added[0]), counted
        if index is None or index[1] == end or added[1].scalars.get("reduce", "sum") != "sum":
            continue
        chosen = chosen_by(flow, added[1].inputs[-1].tensor, added[0])[0]
        if set(chosen) == {end} and shape_of(flow, index[0])[:1] == shape_of(flow, counted_by)[:1]:
            return _Counted(row, added[0], count, end, (counted_by, index[0]))
    return None


def _count(flow: Dataflow, tensor: int, row: int, *, is_inverse: bool) -> tuple[int, tuple[int, End]] | None:
    """The call that counted the edges at one end, if that number is what divides, and which end it is."""
    for _ in range(_MAX_CALLS):
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or not call.inputs:
            return None
        name = plain_name(call.function)
        if name in _COUNTS and len(call.inputs) == 1:
            return None if is_inverse else (made, end_of_edges(flow, call.inputs[0].tensor, made))
        if name in ADD_UP:
            index = indexes_of(flow, call)
            is_of_ones = _is_of_ones(flow, call, made)
            return (made, end_of_edges(flow, index, made)) if index and is_of_ones and not is_inverse else None
        if name in _INVERTS and is_inverse and _is_inverse(call, name):
            is_inverse = False
        elif name not in _OF_COUNT or (name == "add" and len(call.inputs) > 1):
            return None
        row, tensor = made, call.inputs[0].tensor
    return None


def _is_inverse(call: Call, name: str) -> bool:
    if name == "pow":
        return number_of(call, "1", "exponent", missing=1.0) == -1
    is_of_one = is_number_first(call) and len(call.inputs) == 1 and number_of(call, *OPERAND, missing=1.0) == 1
    return name == "reciprocal" or is_of_one


def _is_of_ones(flow: Dataflow, call: Call, row: int) -> bool:
    made = value_maker(flow, call.inputs[-1].tensor, row)
    return made is not None and plain_name(made[1].function) in _ONES


def _differ(flow: Dataflow, found: _Counted) -> bool:
    """Whether the nodes have other numbers of edges at the one end than at the other, as few figures say.

    Where each edge has one the other way beside it, both numbers are the same.
    """
    bounds = [flow.values(each, found.divided) for each in found.indexes]
    one, other = ((each.minimum, each.maximum) if each is not None else None for each in bounds)
    if one is not None and other is not None and one != other:
        return True
    draws = [_draws_of(flow, each, found.divided) for each in found.indexes]
    # An edge that is put in both ways has the same draws at both ends.
    if None not in draws and not frozenset(draws[0] or ()) & frozenset(draws[1] or ()):
        return True
    counts = _result(flow, found.count)
    sums = _result(flow, found.added)
    if counts is None or sums is None or not counts.count:
        return False
    return sums.zeros < counts.zeros * (sums.count // counts.count)


def _result(flow: Dataflow, row: int) -> ValueFacts | None:
    """What a call returned."""
    return flow.log.calls[row].outputs[0].values or flow.values(flow.log.calls[row].outputs[0].tensor, row + 1)


def _draws_of(flow: Dataflow, tensor: int, row: int) -> frozenset[tuple[int, int | str]] | None:
    """The draws that indexes were put together of, each with the part of it that was taken; None if they are not drawn
    alone."""
    place: int | str = WHOLE
    for _ in range(_MAX_CALLS):
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None:
            return None
        name = plain_name(call.function)
        if name in _DRAWS:
            return frozenset({(tensor, place)})
        if name in _JOINS:
            is_one = name == "stack" and isinstance(place, int) and call.scalars.get("dim", 0) == 0
            inputs = call.inputs[int(place) :][:1] if is_one else call.inputs
            parts = [_draws_of(flow, use.tensor, made) for use in inputs]
            return None if None in parts else frozenset[tuple[int, int | str]]().union(*(part or () for part in parts))
        if len(call.inputs) != 1 or (name not in SHAPE_ONLY and name != "unbind"):
            return None
        if name in _TAKE_PART:
            place = part_of(call, tensor)
        tensor, row = call.inputs[0].tensor, made
    return None


def _shares_out(flow: Dataflow, found: _Counted) -> bool:
    """Whether the quotient, without a layer in between, is chosen by the end that was counted: a random walk, in which
    each node shares out what it has."""
    waiting, seen = [(use.tensor, found.divided) for use in flow.log.calls[found.divided].outputs], 0
    while waiting and seen < _MAX_CALLS:
        seen += 1
        for user in flow.users(*waiting.pop()):
            call = flow.log.calls[user]
            name = plain_name(call.function)
            index = index_of_rows(flow, user) if name in CHOOSE and len(call.inputs) >= _TWO else None
            if index is not None and index[1] == found.end:
                return True
            if name in _ARRANGED:
                waiting += [(use.tensor, user) for use in call.outputs]
    return False
