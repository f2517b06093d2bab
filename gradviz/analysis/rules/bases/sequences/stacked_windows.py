"""Windows that were cut out of one series, sample by sample, and stacked to the inputs and the targets of a batch, or
that were looked up at once, ``series[start[:, None] + torch.arange(9)]``, or taken as rows of a table of windows."""

from __future__ import annotations

from math import prod

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, tensor_before, value_maker
from gradviz.analysis.rules.bases.sequences.part_of_inputs import (
    KEEPS,
    Slice,
    TargetRead,
    data_read,
    is_cut_from,
    is_error,
    slice_of,
    steps_read,
)
from gradviz.analysis.rules.bases.sequences.window_tables import window_table
from gradviz.graph.call_log import Call

_BOTH = 2
_MAX_CALLS = 16
_SCALES = frozenset({"sub", "div", "add", "mul"})


class _Span(Struct, frozen=True):
    """The part of the first axis of a tensor that one sample is."""

    source: tuple[int, ...]
    """The tensor; where numbers were looked up in it, also the tensor of the numbers at which the samples begin."""
    start: int
    length: int
    cut: int
    """The call that cut it out last."""
    columns: tuple[tuple[int, int, int], ...] = ()
    """What it takes of other axes: each with where it starts and how long it is; empty for all of them."""
    made: int = -1
    """The call that cut it out first, where a loader may have been the last."""


def stacked_target_read(flow: Dataflow, row: int) -> TargetRead | None:
    """Whether the target of each sample, or its beginning, is the last part of the window that the model reads of the
    same sample."""
    call = flow.log.calls[row]
    if not is_error(call):
        return None
    target = _spans(flow, call.inputs[1].tensor, row)
    if not target:
        return None
    for each, use in data_read(flow, call.inputs[0].tensor, row):
        given = _spans(flow, use.tensor, each, is_scaled=True)
        shared = set(map(_shared, target, given)) if len(given) == len(target) else {0}
        if 0 not in shared:
            length = given[0].length
            is_part = is_cut_from(flow, call.inputs[0].tensor, row, length)
            return (
                None
                if is_part
                else TargetRead(target[-1].cut, each, length, max(shared), target[0].length, target[-1].made)
            )
    return None


def _shared(target: _Span, given: _Span) -> int:
    """How many steps of the target of a sample the model reads at the end of its window."""
    if given.source != target.source or given.columns not in ((), target.columns):
        return 0
    window, wanted = ((each.start, each.start + each.length) for each in (given, target))
    return steps_read(window, wanted)


def _spans(flow: Dataflow, tensor: int, before: int, *, is_scaled: bool = False) -> list[_Span]:
    """Of each sample of a batch, the part of a series that it is; none if a call did something else with them.

    Args:
        is_scaled: a mean of each sample may have been subtracted, or each divided by a number, or padded.
    """
    kept = list[Slice]()
    for row, call in flow.makers(tensor, before, _MAX_CALLS):
        name = plain_name(call.function)
        if name == "stack" and not call.scalars.get("1", call.scalars.get("dim", 0)):
            found = [_span(flow, use.tensor, row) for use in call.inputs]
            known = [each for each in found if each is not None]
            return [_cut_further(each, kept) for each in known] if len(known) == len(found) else []
        picked = _picked(flow, row, call) if name in ("getitem", "index_select") and len(call.inputs) == _BOTH else None
        if picked is not None:
            return [_cut_further(picked, kept)]
        indexed = _indexed(flow, row, call) if name in ("getitem", "take") and len(call.inputs) == _BOTH else None
        if indexed is not None:
            return [_cut_further(indexed, kept)]
        is_kept = name in KEEPS and len(call.inputs) == 1 and not (is_scaled and _leaves_out(flow, call))
        if not is_kept and not (is_scaled and (name == "pad" or _only_scales(flow, name, call))):
            return []
        part = slice_of(flow, call, name, tensor) if name in KEEPS else None
        kept += [part] if part is not None and part.axis == 1 else []
        tensor = call.inputs[0].tensor
    return []


def _picked(flow: Dataflow, row: int, call: Call) -> _Span | None:
    """``windows[numbers]``, and ``series[9:][numbers]``: rows of a table of windows, or of what stands beside each."""
    source, index = call.inputs[0].tensor, call.inputs[1].tensor
    is_of_rows = len(shape_of(flow, index)) == 1 and call.inputs[1].place in ("1", "index", "2")
    table = window_table(flow, source, row) if is_of_rows else None
    return None if table is None else _Span((table.source, index, table.step), table.start, table.length, table.cut)


def _cut_further(span: _Span, parts: list[Slice]) -> _Span:
    """What is left of a sample after parts of the batch were taken, the last one first: ``y[:, -horizon:]``."""
    start, length = span.start, span.length
    for part in reversed(parts):
        start, length = start + part.start, part.length
    return _Span(span.source, start, length, span.cut, span.columns, span.made)


def _leaves_out(flow: Dataflow, call: Call) -> bool:
    """Whether a call takes a part: the model may not read the column that it is asked for."""
    return prod(shape_of(flow, call.inputs[0].tensor)) != prod(shape_of(flow, call.outputs[0].tensor))


def _only_scales(flow: Dataflow, name: str, call: Call) -> bool:
    """Whether a call adds the same to all elements of a sample, or multiplies all with the same."""
    if not call.inputs or not call.outputs:
        return False
    shape = shape_of(flow, call.outputs[0].tensor)
    others = [shape_of(flow, use.tensor) for use in call.inputs[1:]]
    is_same = bool(shape) and shape_of(flow, call.inputs[0].tensor) == shape
    return (
        name in _SCALES
        and is_same
        and all(other == () or (len(other) > 1 and set(other[1:]) == {1}) for other in others)
    )


def _span(flow: Dataflow, tensor: int, before: int) -> _Span | None:
    """The part of a series that one sample is."""
    start, length, cut, made, columns = 0, None, before, before, list[tuple[int, int, int]]()
    for row, call in flow.makers(tensor, before, _MAX_CALLS):
        parts = _element_of(flow, call, tensor) or [slice_of(flow, call, plain_name(call.function), tensor)]
        for part in parts:
            if part is not None and part.axis == 0 and length is not None and _drops_axis(flow, call, tensor):
                columns = [(1, start, length), *((axis + 1, begin, size) for axis, begin, size in columns)]
                start, length, cut = part.start, 1, row
            elif part is not None and part.axis == 0:
                start, length = part.start + start, part.length if length is None else length
                cut, made = max(cut, row) if cut != before else row, row
            elif part is not None:
                columns.append((part.axis, part.start, part.length))
        if parts == [None] and (plain_name(call.function) not in KEEPS or len(call.inputs) != 1):
            break
        tensor = call.inputs[0].tensor
    if length is None:
        return None
    return _of_table(flow, _Span((tensor,), start, length, cut, tuple(sorted(columns)), made), before)


def _of_table(flow: Dataflow, span: _Span, before: int) -> _Span:
    """The same as a part of the series, if it is a row of a table of windows, or a part of that row."""
    table = window_table(flow, span.source[0], before) if span.length == 1 else None
    if table is None or table.length == 1 or len(span.columns) > 1 or any(axis != 1 for axis, _, _ in span.columns):
        return span
    _, begin, length = span.columns[0] if span.columns else (1, 0, table.length)
    return _Span((table.source,), table.start + span.start * table.step + begin, length, span.cut)


def _drops_axis(flow: Dataflow, call: Call, result: int) -> bool:
    return len(shape_of(flow, result)) < len(shape_of(flow, call.inputs[0].tensor))


def _element_of(flow: Dataflow, call: Call, result: int) -> list[Slice | None] | None:
    """What ``series[9, 0]`` takes: one number of each of the first axes."""
    given = shape_of(flow, call.inputs[0].tensor) if call.inputs else ()
    numbers = [call.scalars.get(f"1[{axis}]") for axis in range(len(call.scalars))]
    if plain_name(call.function) != "getitem" or len(call.inputs) != 1 or not _BOTH <= len(numbers) <= len(given):
        return None
    if given[len(numbers) :] != shape_of(flow, result):
        return None
    known = [number for number in numbers if type(number) is int]
    parts = [Slice(axis, number % given[axis], 1) for axis, number in enumerate(known)]
    return list[Slice | None](parts) if len(parts) == len(numbers) else None


def _indexed(flow: Dataflow, row: int, call: Call) -> _Span | None:
    """``series[start[:, None] + torch.arange(9)]``, and ``series[start + 8]``: the part is that from each start on."""
    source, index = call.inputs[0].tensor, call.inputs[1].tensor
    if len(shape_of(flow, source)) != 1:
        return None
    made = value_maker(flow, index, row)
    added = None if made is None else made[1]
    if made is None or added is None or plain_name(added.function) not in ("add", "sub"):
        return None
    sign = 1 if plain_name(added.function) == "add" else -1
    if len(added.inputs) == 1:
        number = added.scalars.get("1")
        return (
            None if type(number) is not int else _Span((source, _start(flow, added, 0, made[0])), sign * number, 1, row)
        )
    for first, other in ((0, 1), (1, 0)):
        values = flow.values_of(added.inputs[other], made[0])
        if values is None or values.minimum is None or values.maximum is None or sign < 0:
            continue
        length = int(values.maximum - values.minimum) + 1
        shape = shape_of(flow, added.inputs[other].tensor)
        if (
            length == values.count
            and shape[-1:] == (length,)
            and shape_of(flow, added.inputs[first].tensor)[-1:] == (1,)
        ):
            return _Span((source, _start(flow, added, first, made[0])), int(values.minimum), length, row)
    return None


def _start(flow: Dataflow, call: Call, position: int, row: int) -> int:
    """The tensor of the numbers at which the samples begin, whatever its shape."""
    return tensor_before(flow, call.inputs[position].tensor, row, SHAPE_ONLY)
