"""In which order the rows of a tensor have two axes that were flattened to them, and which of these rows it has."""

from __future__ import annotations

from math import prod

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

FLATTEN = frozenset({"reshape", "view", "flatten"})
TURN = frozenset({"transpose", "permute", "t", "T", "swapaxes", "movedim", "mT", "swapdims"})
JOINS = frozenset({"cat", "concat", "vstack"})
GRIDS = frozenset({"cartesian_prod"})
_MIN_STEPS = 3
_MAX_CALLS = 60
_BOTH = 2

Order = tuple[int, int]
"""The lengths of both axes, the outer one first; zeros where it cannot be told."""


class _Rows(Struct, frozen=True):
    """A tensor as the call with a number received it, and the axis of its rows."""

    tensor: int
    before: int
    axis: int
    count: int
    picks: tuple[object, ...]
    """By what rows were taken later."""


def orders_of_rows(flow: Dataflow, tensor: int, row: int, count: int) -> dict[tuple[Order, tuple[object, ...]], int]:
    """By the lengths of two axes that were flattened to these rows, and what was taken of them: the call that did."""
    found: dict[tuple[Order, tuple[object, ...]], int] = {}
    waiting, seen = [_Rows(tensor, row, 0, count, ())], set[int]()
    while waiting and len(seen) < _MAX_CALLS:
        each = waiting.pop()
        made = flow.newest_producer(each.tensor, each.before)
        if made is None or made in seen:
            continue
        seen.add(made)
        call = flow.log.calls[made]
        given = shape_of(flow, call.inputs[0].tensor) if call.inputs else ()
        order = _order(flow, each, call, given)
        if order is not None:
            found[order, each.picks] = made
        else:
            waiting += _above(flow, each, made, call, given)
    return found


def _order(flow: Dataflow, rows: _Rows, call: Call, given: Shape) -> Order | None:
    """The order in which a call makes rows of two axes; None if it does not."""
    name = plain_name(call.function)
    if rows.axis == 0 and _is_of_steps(flow, call, given, rows.count):
        return len(call.inputs), given[0]
    if rows.axis == 0 and name in GRIDS:
        lengths = [prod(shape_of(flow, use.tensor)) for use in call.inputs]
        return (lengths[0], lengths[1]) if len(lengths) == _BOTH and prod(lengths) == rows.count else (0, 0)
    if name not in FLATTEN or len(given) < _BOTH + rows.axis or given[rows.axis] == rows.count:
        return None
    outer, inner = given[rows.axis : rows.axis + _BOTH]
    is_of_two = outer * inner == rows.count and min(outer, inner) > 1
    if rows.axis and shape_of(flow, rows.tensor)[: rows.axis] != given[: rows.axis]:
        return 0, 0
    return (outer, inner) if is_of_two else (0, 0)


def _above(flow: Dataflow, rows: _Rows, made: int, call: Call, given: Shape) -> list[_Rows]:
    """What a call has the rows from."""
    name, result = plain_name(call.function), shape_of(flow, rows.tensor)
    source = call.inputs[0].tensor if call.inputs else -1
    picked = _picked(flow, call, name, given, made) if rows.axis == 0 else None
    if picked is not None:
        tensor, pick = picked
        return [_Rows(tensor, made, 0, shape_of(flow, tensor)[0], (pick, *rows.picks))]
    if name in ("t", "T", "mT") and len(given) == _BOTH:
        return [_Rows(source, made, 1 - rows.axis, rows.count, rows.picks)]
    if name in ("transpose", "swapaxes", "swapdims") and len(given) == len(result):
        ends = [value % len(given) for value in (call.scalars.get("1"), call.scalars.get("2")) if type(value) is int]
        if len(ends) == _BOTH and rows.axis in ends:
            return [_Rows(source, made, sum(ends) - rows.axis, rows.count, rows.picks)]
    if rows.axis:  # rows that are not in front are only followed through what acts on each element
        return [
            _Rows(use.tensor, made, rows.axis, rows.count, rows.picks)
            for use in call.inputs
            if shape_of(flow, use.tensor) == result
        ]
    uses = (use.tensor for use in call.inputs if shape_of(flow, use.tensor)[:1] == (rows.count,))
    return [_Rows(tensor, made, 0, rows.count, rows.picks) for tensor in uses]


def _picked(flow: Dataflow, call: Call, name: str, given: Shape, row: int) -> tuple[int, object] | None:
    """The tensor of which a call takes some rows, and by what: numbers in a tensor, or one row after the other."""
    if name in ("getitem", "index_select") and len(call.inputs) == _BOTH and len(given) > 1:
        index = shape_of(flow, call.inputs[1].tensor)
        is_of_rows = len(index) == 1 and shape_of(flow, call.outputs[0].tensor)[1:] == given[1:]
        return (call.inputs[0].tensor, call.inputs[1].tensor) if is_of_rows else None
    if name != "stack" or len(call.inputs) < _BOTH or call.scalars.get("1", call.scalars.get("dim", 0)) != 0:
        return None
    sources, numbers = set[int](), list[int]()
    for use in call.inputs:
        made = flow.newest_producer(use.tensor, row)
        taken = None if made is None else flow.log.calls[made]
        if taken is None or plain_name(taken.function) != "getitem" or len(taken.inputs) != 1:
            return None
        number = taken.scalars.get("1")
        if type(number) is not int or len(taken.scalars) != 1:
            return None
        sources.add(taken.inputs[0].tensor)
        numbers.append(number)
    return (sources.pop(), tuple(numbers)) if len(sources) == 1 else None


def _is_of_steps(flow: Dataflow, call: Call, given: Shape, count: int) -> bool:
    """Whether a call puts results of a loop over time below each other: ``cat(rows)`` has the order (time, batch)."""
    if plain_name(call.function) not in JOINS or len(call.inputs) < _MIN_STEPS or not given:
        return False
    lines = {flow.log.calls[made].call_site for use in call.inputs for made in flow.producers(use.tensor)[-1:]}
    is_one_shape = {shape_of(flow, use.tensor) for use in call.inputs} == {given}
    return is_one_shape and len(lines) == 1 and given[0] > 1 and given[0] * len(call.inputs) == count
