"""Calls that put copies of samples, or parts of them, together: cat and stack."""

from __future__ import annotations

from collections.abc import Container

from msgspec import Struct
from msgspec.structs import replace

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.copies.axes_of_copies import Axes, Axis, AxisKind, pair, rows
from gradviz.analysis.rules.bases.copies.parts_of_copies import OF_FIRST_AXIS
from gradviz.graph.call_log import Call


def joined_parts(flow: Dataflow, row: int, call: Call, name: str, copies: Container[int]) -> Axes | None:
    """The axes of ``cat`` and ``stack``, where they put copies of the same samples together.

    Args:
        copies: tensors that are known to be one copy of all samples.
    """
    shapes = {shape_of(flow, use.tensor) for use in call.inputs}
    shape = next(iter(shapes), ())
    count = len(call.inputs)
    if len(shapes) != 1 or not shape or not 1 < count <= _MAX_COPIES or name == "hstack":
        return None
    is_stack = name == "stack"
    axis = axis_of(call, len(shape) + is_stack) if call.scalars else 0
    if axis not in ((0, 1) if is_stack else (0,)) or not _are_copies(flow, row, call, copies):
        return None
    if is_stack:
        return pair(count, shape[0], row, is_copies_first=axis == 0, rest=len(shape) - 1)
    tiled = rows(count, shape[0], row, "tiled")
    return None if tiled is None else (tiled, *(None for _ in shape[1:]))


_MAX_COPIES = 256
_MAX_MAKERS = 300
_BOTH = 2


class _Sources(Struct):
    """Where the rows of a tensor come from."""

    same: set[int]
    """Tensors with the same rows from which it was computed."""
    selected: set[tuple[int, int]]
    """Tensors of which rows were selected, each with what was selected."""


def _are_copies(flow: Dataflow, row: int, call: Call, copies: Container[int]) -> bool:
    """Whether tensors have the same samples as their rows: they were computed from the same rows, or are two tensors
    that do not come from different rows of the same one."""
    one, other = (_sources(flow, use.tensor, row, copies) for use in (call.inputs[0], call.inputs[-1]))
    if one is None or other is None:
        return False
    apart = [{above for above, _ in these} for these in (one.selected - other.selected, other.selected - one.selected)]
    if not apart[0].isdisjoint(apart[1]):
        return False
    return len(call.inputs) == _BOTH or not one.same.isdisjoint(other.same)


def _sources(flow: Dataflow, tensor: int, before: int, copies: Container[int]) -> _Sources | None:
    """None where there are too many to be sure."""
    count = shape_of(flow, tensor)[0]
    found, waiting = _Sources({tensor}, set()), [(tensor, before)]
    while waiting:
        given, at = waiting.pop()
        made = flow.newest_producer(given, at)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or call.kind != "operation":
            continue
        if given in copies:
            found.same.add(call.inputs[0].tensor)
            continue
        if _selects_rows(call):
            found.selected.add((call.inputs[0].tensor, given))
            continue
        for use in call.inputs:
            is_of_rows = shape_of(flow, use.tensor)[:1] == (count,) and flow.log.tensors[use.tensor].role == "tensor"
            if is_of_rows and use.tensor not in found.same:
                found.same.add(use.tensor)
                waiting.append((use.tensor, made))
        if len(found.same) > _MAX_MAKERS:
            return None
    return found


_ONE_AXIS = frozenset({"narrow", "index_select", "unbind", "select"})
_SELECT = frozenset({"chunk", "split", "tensor_split"}) | _ONE_AXIS


def _selects_rows(call: Call) -> bool:
    """Whether it selects along the first axis."""
    name = plain_name(call.function)
    if name == "getitem":
        return bool(OF_FIRST_AXIS.intersection([*call.scalars, *(use.place for use in call.inputs[1:])]))
    position = "1" if name in _ONE_AXIS else "2"
    return name in _SELECT and call.scalars.get("dim", call.scalars.get(position, 0)) == 0


def stacked_groups(call: Call, given: list[Axes]) -> Axes | None:
    """The axes of a ``stack`` of all parts that rows were split into: one of the parts, one of the rows in each."""
    firsts = [axes[0] if axes else None for axes in given]
    known = [axis for axis in firsts if axis is not None]
    first = known[0] if known else None
    if first is None or len(known) < len(firsts) or len({(each.made, each.kind) for each in known}) > 1:
        return None
    axis = axis_of(call, len(given[0]) + 1) if call.scalars else 0
    is_of_parts = first.kind == "part" and [each.part for each in known] == list(range(first.copies))
    is_of_groups = first.kind in ("no_copies", "copies") and len(known) == first.samples
    if axis is None or not (is_of_parts or is_of_groups):
        return None
    names = _STACKED["part" if is_of_parts else "copies" if first.kind == "copies" else "no_copies"]
    stacked, row = (replace(first, kind=kind, part=None) for kind in names)
    axes: list[Axis | None] = [row, *given[0][1:]]
    axes.insert(axis, stacked)
    return tuple(axes)


_STACKED: dict[str, tuple[AxisKind, AxisKind]] = {
    "part": ("no_copies", "no_samples"),
    "copies": ("samples", "copies"),
    "no_copies": ("no_samples", "no_copies"),
}
