"""In which order the rows of a tensor have two axes that were flattened to them, and which of these rows it has."""

from __future__ import annotations

import ast
from math import prod

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.sources.own_files import own_tree
from gradviz.analysis.sources.source_tree import last_line
from gradviz.graph.call_log import Call

FLATTEN = frozenset({"reshape", "view", "flatten"})
TURN = frozenset({"transpose", "permute", "t", "T", "swapaxes", "movedim", "mT", "swapdims"})
JOINS = frozenset({"cat", "concat", "vstack"})
GRIDS = frozenset({"cartesian_prod"})
_CUT = frozenset({"split", "chunk"})
_TAKE = _CUT | {"getitem", "index_select"}
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


def orders_of_rows(case: Case, tensor: int, row: int, count: int) -> dict[tuple[Order, tuple[object, ...]], int]:
    """By the lengths of two axes that were flattened to these rows, and what was taken of them: the call that did."""
    flow = case.dataflow
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
            waiting += _above(case, each, made, call, given)
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


def _above(case: Case, rows: _Rows, made: int, call: Call, given: Shape) -> list[_Rows]:
    """What a call has the rows from."""
    flow = case.dataflow
    name, result = plain_name(call.function), shape_of(flow, rows.tensor)
    source = call.inputs[0].tensor if call.inputs else -1
    picked = _picked(case, call, rows.tensor, given, made) if rows.axis == 0 else None
    if picked is not None:
        tensor, pick = picked
        above = [_Rows(tensor, made, 0, shape_of(flow, tensor)[0], (pick, *rows.picks))]
        # One number for each class or place: the rows are those of the index.
        is_table = len(given) == 1 and len(call.inputs) == _BOTH
        return [*above, _Rows(call.inputs[1].tensor, made, 0, rows.count, rows.picks)] if is_table else above
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


def _picked(case: Case, call: Call, tensor: int, given: Shape, row: int) -> tuple[int, object] | None:
    """The tensor of which a call takes some rows, and by what: an index, or one row after the other."""
    flow, name = case.dataflow, plain_name(call.function)
    if name in _TAKE and given:
        result = next((use.tensor for use in call.outputs if use.tensor == tensor), call.outputs[0].tensor)
        is_of_rows = shape_of(flow, result)[1:] == given[1:] and len(shape_of(flow, result)) == len(given)
        pick = _taken_by(case, call, row, result) if is_of_rows else None
        return None if pick is None else (call.inputs[0].tensor, pick)
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


def _taken_by(case: Case, call: Call, row: int, result: int) -> object | None:
    """What tells which rows are taken: a tensor of numbers, a list or a slice; of an array that torch does not see, its
    name, and the function and the step in which it is used."""
    flow = case.dataflow
    if len(call.inputs) > 1:
        index = call.inputs[1].tensor
        return index if len(call.inputs) == _BOTH and len(shape_of(flow, index)) == 1 else None
    if shape_of(flow, result) == shape_of(flow, call.inputs[0].tensor):
        return None
    if plain_name(call.function) in _CUT:
        return next(number for number, use in enumerate(call.outputs) if use.tensor == result), *_numbers(call)
    return _numbers(call) or _named(case, row)


def _named(case: Case, row: int) -> object | None:
    """The only name by which a line takes rows."""
    flow = case.dataflow
    line = flow.line_of(row)
    tree = None if line is None else own_tree(case, line.file)
    if line is None or tree is None:
        return None
    taken = [
        node for node in tree.nodes if isinstance(node, ast.Subscript) and node.lineno <= line.line <= last_line(node)
    ]
    names = {ast.unparse(node.slice) for node in taken if not isinstance(node.slice, ast.Constant)}
    return (names.pop(), line.file, line.function, flow.step_before(row)) if len(names) == 1 else None


def _numbers(call: Call) -> tuple[object, ...]:
    return tuple(sorted(call.scalars.items()))


def _is_of_steps(flow: Dataflow, call: Call, given: Shape, count: int) -> bool:
    """Whether a call puts results of a loop over time below each other: ``cat(rows)`` has the order (time, batch)."""
    if plain_name(call.function) not in JOINS or len(call.inputs) < _MIN_STEPS or not given:
        return False
    lines = {flow.log.calls[made].call_site for use in call.inputs for made in flow.producers(use.tensor)[-1:]}
    is_one_shape = {shape_of(flow, use.tensor) for use in call.inputs} == {given}
    return is_one_shape and len(lines) == 1 and given[0] > 1 and given[0] * len(call.inputs) == count
