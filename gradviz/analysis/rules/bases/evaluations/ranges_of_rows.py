"""Which rows of the stored data, or which places of a stored permutation, a batch was taken from."""

from __future__ import annotations

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.evaluations.network_outputs import SAME_VALUES
from gradviz.analysis.rules.bases.sequences.part_of_inputs import slice_of
from gradviz.graph.call_log import Call


class RowRange(Struct, frozen=True):
    """Rows of the first axis of a tensor that is as old as the training."""

    source: int
    """The memory of the tensor."""
    first: int
    end: int
    """The first row that is not in it."""
    total: int
    """How many rows the tensor has."""
    cut: int
    """The newest call that took a part by its bounds; -1 where none did."""
    is_ordered: bool = True
    """Whether the rows still have their order. Where they were looked up in another one, a part of them may be any."""


_ARITHMETIC = frozenset({"add", "sub", "mul", "div", "true_divide", "log", "log1p", "clamp", "sqrt", "abs", "square"})
_TAKES = frozenset({"getitem", "index_select"})
_PARTS = frozenset({"getitem", "narrow", "split", "chunk", "tensor_split"})
_PASSED = SAME_VALUES | _ARITHMETIC | _TAKES | _PARTS
_MAX_CALLS = 16
_BOTH = 2


def range_of_rows(flow: Dataflow, tensor: int, before: int, first_backward: int, levels: int = 2) -> RowRange | None:
    """The rows that a batch was taken from; None where a call did something else with the first axis.

    Args:
        levels: how many tensors of indexes are followed that were taken by indexes themselves.
    """
    steps = list[tuple[int, Call, int]]()  # The calls, with the tensor that each made.
    for row, call in flow.makers(tensor, before, _MAX_CALLS):
        if not call.inputs or plain_name(call.function) not in _PASSED:
            break
        steps.append((row, call, tensor))
        tensor = call.inputs[0].tensor
    rows = shape_of(flow, tensor)[:1]
    found = RowRange(flow.memory_of(tensor), 0, rows[0], rows[0], -1) if rows else None
    for row, call, made in reversed(steps):
        found = None if found is None else _after(flow, found, row, call, made, first_backward, levels)
    return found


def _after(
    flow: Dataflow, given: RowRange, row: int, call: Call, made: int, first_backward: int, levels: int
) -> RowRange | None:
    """The rows behind a call, from those that it was given."""
    name = plain_name(call.function)
    shapes = shape_of(flow, call.inputs[0].tensor), shape_of(flow, made)
    if name in _TAKES and len(call.inputs) == _BOTH:
        return _looked_up(flow, given, row, call, first_backward, levels)
    part = slice_of(flow, call, name, made) if name in _PARTS else None
    if part is not None and part.axis == 0 and len(shapes[0]) == len(shapes[1]):
        if not given.is_ordered:
            return given
        first = given.first + part.start
        return RowRange(given.source, first, first + part.length, given.total, row)
    return given if shapes[0][:1] == shapes[1][:1] and shapes[0][:1] else None


def _looked_up(
    flow: Dataflow, given: RowRange, row: int, call: Call, first_backward: int, levels: int
) -> RowRange | None:
    """The rows that a tensor of indexes names: the places of a permutation that is as old as the training; else from
    the least to the greatest."""
    index = call.inputs[1]
    if len(shape_of(flow, index.tensor)) != 1:
        return None
    places = range_of_rows(flow, index.tensor, row, first_backward, levels - 1) if levels else None
    made = flow.newest_producer(index.tensor, row)
    if places is not None and places.cut >= 0 and made is not None and made < first_backward:
        return places
    values = flow.values_of(index, row)
    if values is None or values.minimum is None or values.maximum is None or values.minimum < 0:
        return None
    if not given.is_ordered:
        return given
    first, end = given.first + int(values.minimum), given.first + int(values.maximum) + 1
    return RowRange(given.source, first, end, given.total, given.cut, is_ordered=False)
