"""Calls that take some rows of copies of samples: slices, parts and single copies."""

from __future__ import annotations

from msgspec.structs import replace

from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.copies.axes_of_copies import Axes, Axis, group_of_rows, part_of_rows, rows
from gradviz.graph.call_log import Call

_BOTH = 2


def parts_of(flow: Dataflow, row: int, call: Call, name: str, axes: Axes) -> list[Axes | None]:
    """The axes of the results of ``chunk``, ``split``, ``select`` and ``repeat_interleave``."""
    shape = shape_of(flow, call.inputs[0].tensor)
    results = [shape_of(flow, use.tensor) for use in call.outputs]
    if name == "repeat_interleave":
        return [_interleaved(row, call, shape, results[0])]
    axis = _axis_of_selection(call, name, len(shape))
    if axis is None or axis >= len(axes):
        return [None for _ in results]
    if name in ("select", "unbind"):
        numbers = [call.scalars.get("2", call.scalars.get("index"))] if name == "select" else range(len(results))
        return [_without(axes, axis, number) for number in numbers]
    if axis > 0:
        return [(*axes[:axis], None, *axes[axis + 1 :]) for _ in results]
    first, sizes = axes[0], {result[:1] for result in results}
    if first is not None and first.is_of_rows and name != "narrow" and sizes == {(first.copies,)}:
        return [(group_of_rows(first, row, is_strided=False), *axes[1:]) for _ in results]
    if first is None or not first.is_of_rows or name == "narrow" or sizes != {(first.samples,)}:
        return [(None, *axes[1:]) for _ in results]
    return [(part_of_rows(first, row, number, is_strided=False), *axes[1:]) for number in range(len(results))]


def is_whole_copy(call: Call, name: str, axis: Axis | None, taken: int) -> bool:
    """Whether a call takes one copy of all samples of rows in which one copy stands after the other."""
    if axis is None or axis.kind != "tiled" or taken != axis.samples:
        return False
    first = _bound(call, "start", 0, axis.samples * axis.copies) if name == "getitem" else 0
    return first is not None and first % axis.samples == 0


def _interleaved(row: int, call: Call, before: Shape, after: Shape) -> Axes | None:
    times = call.scalars.get("1", call.scalars.get("repeats"))
    axis = call.scalars.get("2", call.scalars.get("dim"))
    is_first = axis == 0 or (len(before) == 1 and axis in (None, -1))
    if type(times) is not int or not is_first or len(before) != len(after):
        return None
    first = rows(times, before[0], row, "interleaved")
    return None if first is None else (first, *(None for _ in before[1:]))


def _axis_of_selection(call: Call, name: str, rank: int) -> int | None:
    position = "1" if name in ("narrow", "unbind", "select") else "2"
    told = call.scalars.get("dim", call.scalars.get(position, 0))
    return told % rank if type(told) is int and rank else None


def _without(axes: Axes, axis: int, number: object) -> Axes:
    """The axes without one of which one index was taken: a part, if it has no copies."""
    left = (*axes[:axis], *axes[axis + 1 :])
    taken = axes[axis]
    if taken is None or taken.kind != "no_copies" or type(number) is not int:
        return left
    part = replace(taken, kind="part", part=number)
    return tuple(part if each is not None and each.kind == "no_samples" else each for each in left)


def selected(call: Call, axes: Axes, before: Shape, after: Shape, row: int) -> Axes | None:
    """The axes after indexing with numbers and slices."""
    told = {place for place in call.scalars if place in OF_FIRST_AXIS}
    if not before or not after:
        return None
    if after[1:] == before and not told:
        return (None, *axes)
    if len(after) == len(before) + 1 and (after[:1], after[2:]) == (before[:1], before[1:]) and not told:
        return (axes[0], None, *axes[1:])
    if before[1:] == after[1:] and before[:1] != after[:1]:
        return (_sliced(call, axes[0], before[0], after[0], row), *axes[1:])
    if told or before[:1] != after[:1]:
        return None
    if len(after) == len(before):
        kept = next((at for at, size in enumerate(after) if size != before[at]), len(after))
        return (*axes[:kept], *(None,) * (len(after) - kept))
    is_second = after == (*before[:1], *before[2:]) and (len(before) == _BOTH or after != before[:-1])
    return _without(axes, 1, call.scalars.get("1[1]")) if is_second else (axes[0], *(None for _ in after[1:]))


OF_FIRST_AXIS = frozenset({"1", "1.start", "1.stop", "1.step", "1[0]", "1[0].start", "1[0].stop", "1[0].step"})


def _sliced(call: Call, axis: Axis | None, count: int, taken: int, row: int) -> Axis | None:
    """The part of rows that a slice of the first axis takes; the log has its bounds, and the shapes its step."""
    if axis is None or not axis.is_of_rows or taken not in (axis.samples, axis.copies):
        return None
    first, last = (_bound(call, end, default, count) for end, default in (("start", 0), ("stop", count)))
    if first is None or last is None:
        return None
    if taken == axis.copies:
        is_whole = last - first == taken and first % taken == 0
        is_of_steps = last - first != taken and first < axis.samples and last == count
        return group_of_rows(axis, row, is_strided=is_of_steps) if is_whole or is_of_steps else None
    if last - first == taken:
        return part_of_rows(axis, row, first // taken, is_strided=False) if first % taken == 0 else None
    is_strided = first < axis.copies and last == count
    return part_of_rows(axis, row, first, is_strided=True) if is_strided else None


def _bound(call: Call, end: str, default: int, count: int) -> int | None:
    value = call.scalars.get(f"1.{end}", call.scalars.get(f"1[0].{end}", default))
    return None if type(value) is not int else value + count * (value < 0)


def taken_row(flow: Dataflow, tensor: int, row: int, index: int, count: int) -> int | None:
    """The tensor of `count` rows of which this one is computed from the row with this index alone; None for others."""
    for before, call in flow.makers(tensor, row, _MAX_CHANGES):
        name, rows_of = plain_name(call.function), call.inputs[0].tensor if call.inputs else None
        if rows_of is None:
            return None
        if name == "unbind" and call.scalars.get("1", call.scalars.get("dim", 0)) == 0:
            is_it = len(call.outputs) == count and call.outputs[index].tensor == tensor
        elif name in ("getitem", "select") and len(call.inputs) == 1:
            place = call.scalars.get("1") if name == "getitem" else call.scalars.get("2", call.scalars.get("index"))
            is_it = shape_of(flow, rows_of)[:1] == (count,) and place == index % count
        else:
            tensor, row = rows_of, before
            continue
        return rows_of if is_it else None
    return None


_MAX_CHANGES = 12
