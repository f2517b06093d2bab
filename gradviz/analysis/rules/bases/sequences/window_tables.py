"""Tables with one window of a series in each row: ``series.unfold(0, 9, 1)``, and slices that were stacked."""

from __future__ import annotations

from itertools import pairwise

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.sequences.part_of_inputs import KEEPS, slice_of
from gradviz.graph.call_log import Call

_MAX_CALLS = 12
_MIN_WINDOWS = 8


class WindowTable(Struct, frozen=True):
    """What each row of a tensor is of a series: row i begins at ``start + i * step``."""

    source: int
    start: int
    step: int
    length: int
    cut: int
    """The last call that cut it out, or put it together."""


def window_table(flow: Dataflow, tensor: int, before: int) -> WindowTable | None:
    """The table of windows that a tensor is; a series itself, or its end, is one of windows with a single element."""
    skipped, offset, length, cut = 0, 0, None, before
    for row, call in flow.makers(tensor, before, _MAX_CALLS):
        name = plain_name(call.function)
        make = _MAKERS.get(name)
        whole = None if make is None else make(flow, row, call)
        if whole is not None:
            start = whole.start + skipped * whole.step + offset
            at = row if cut == before else cut
            return WindowTable(whole.source, start, whole.step, whole.length if length is None else length, at)
        part = slice_of(flow, call, name, tensor) if name in KEEPS | {"narrow", "select"} else None
        is_row = part is not None and len(shape_of(flow, tensor)) < len(shape_of(flow, call.inputs[0].tensor))
        if part is not None and part.axis == 0 and not is_row:
            skipped, cut = skipped + part.start, row if cut == before else cut
        elif part is not None and part.axis == 1:
            offset, cut = offset + part.start, row if cut == before else cut
            length = part.length if length is None else length
        elif name not in KEEPS or len(call.inputs) != 1 or shape_of(flow, tensor)[:1] != _rows(flow, call):
            break
        tensor = call.inputs[0].tensor
    # Along another axis than time there are other columns.
    return WindowTable(tensor, skipped, 1, 1, cut) if length is None and len(shape_of(flow, tensor)) == 1 else None


def _rows(flow: Dataflow, call: Call) -> tuple[int, ...]:
    return shape_of(flow, call.inputs[0].tensor)[:1]


def _unfolded(flow: Dataflow, row: int, call: Call) -> WindowTable | None:
    size, step = call.scalars.get("2", call.scalars.get("size")), call.scalars.get("3", call.scalars.get("step"))
    if len(shape_of(flow, call.inputs[0].tensor)) != 1 or type(size) is not int or type(step) is not int:
        return None
    begin = window_table(flow, call.inputs[0].tensor, row)
    if begin is None or begin.length != 1:
        return None
    return WindowTable(begin.source, begin.start, step, size, row)


def _stacked(flow: Dataflow, row: int, call: Call) -> WindowTable | None:
    """Slices of one series at equal steps, stacked in their order."""
    if len(call.inputs) < _MIN_WINDOWS or call.scalars.get("1", call.scalars.get("dim", 0)):
        return None
    parts = [_part(flow, use.tensor, row) for use in call.inputs]
    known = [each for each in parts if each is not None]
    steps = {after[1] - one[1] for one, after in pairwise(known)}
    if len(known) != len(parts) or len(steps) != 1 or len({(each[0], each[2]) for each in known}) != 1:
        return None
    (series, start, length), (step,) = known[0], steps
    return WindowTable(series, start, step, length, row) if step > 0 else None


def _part(flow: Dataflow, tensor: int, before: int) -> tuple[int, int, int] | None:
    """The series of which a tensor is a slice or an element, where that begins, and how long it is."""
    made = flow.newest_producer(tensor, before)
    call = None if made is None else flow.log.calls[made]
    if made is None or call is None or len(call.inputs) != 1 or len(shape_of(flow, call.inputs[0].tensor)) != 1:
        return None
    part = slice_of(flow, call, plain_name(call.function), tensor)
    return None if part is None else (call.inputs[0].tensor, part.start, part.length)


_MAKERS = {"unfold": _unfolded, "stack": _stacked}
