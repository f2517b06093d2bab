"""Calls that put copies of samples, or parts of them, together: cat and stack."""

from __future__ import annotations

from collections.abc import Container
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
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


def stacked_samples(flow: Dataflow, row: int, call: Call) -> Axes | None:
    """The axes of a ``stack`` of samples, each of which is a ``stack`` of copies that one function made of one tensor:
    a data set returns several views of each sample, and a data loader puts the samples together."""
    if len(call.inputs) <= _BOTH or axis_of(call, len(shape_of(flow, call.inputs[0].tensor)) + 1) not in (0, None):
        return None
    counts = {_copies_of_one(flow, call.inputs[index].tensor, row) for index in (0, len(call.inputs) // 2, -1)}
    count = next(iter(counts))
    if len(counts) > 1 or count is None:
        return None
    axes = pair(
        count, len(call.inputs), row, is_copies_first=False, rest=len(shape_of(flow, call.inputs[0].tensor)) - 1
    )
    return None if axes is None else tuple(axis and replace(axis, is_of_loader=True) for axis in axes)


def stacked_pairs(flow: Dataflow, row: int, call: Call) -> Axes | None:
    """The axes of a ``stack`` of two copies of the first sample, two of the second one, and so on."""
    count = len(call.inputs)
    shape = shape_of(flow, call.inputs[0].tensor)
    if count < _MIN_PAIRED or count % _BOTH or axis_of(call, len(shape) + 1) not in (0, None) or not shape:
        return None
    firsts = (0, count // 4 * _BOTH, count - 4)
    made = cache(lambda at: _sources(flow, call.inputs[at].tensor, row, ()))  # most are told by the first two
    is_paired = all(
        _are_of_one(flow, made(at), made(at + 1)) and not _are_of_one(flow, made(at + 1), made(at + 2)) for at in firsts
    )
    axis = rows(_BOTH, count // _BOTH, row, "interleaved") if is_paired else None
    return None if axis is None else (axis, *(None for _ in shape))


def _are_of_one(flow: Dataflow, one: _Sources | None, other: _Sources | None) -> bool:
    """Whether two tensors come from the same one, or are the two elements of one."""
    if one is None or other is None:
        return False
    pairs = {above for above, _ in one.selected} & {above for above, _ in other.selected}
    is_of_pair = any(shape_of(flow, above)[:1] == (_BOTH,) for above in pairs)
    chosen = {_chosen(flow, *each) for each in one.selected} & {_chosen(flow, *each) for each in other.selected}
    return is_of_pair or bool(chosen) or not one.same.isdisjoint(other.same)


def _chosen(flow: Dataflow, above: int, by: object) -> tuple[int, object]:
    """A tensor, and which of its rows were chosen: ``data[i]`` is the same row at each call."""
    made = flow.producers(by) if isinstance(by, int) else ()
    call = flow.log.calls[made[0]] if made else None
    is_numbered = call is not None and plain_name(call.function) == "getitem"
    return above, tuple(call.scalars.items()) if call is not None and is_numbered else by


def rows_that_begin_alike(flow: Dataflow, row: int, call: Call, name: str) -> Axes | None:
    """The axes of rows that a ``stack``, or ``pad_sequence``, puts together, where each is a ``cat`` that begins with a
    tensor, and several of them with the same one: answers to one question, in turns or one after all of the other."""
    is_stack = name == "stack"
    rank = len(shape_of(flow, call.outputs[0].tensor))
    is_first = axis_of(call, rank) in (0, None) if is_stack else call.scalars.get("batch_first", call.scalars.get("1"))
    firsts = [_first_part(flow, use.tensor, row) for use in call.inputs] if is_first else []
    samples = len({each for each in firsts if each is not None})
    copies = len(firsts) // samples if samples and None not in firsts else 0
    if copies <= 1 or copies * samples != len(firsts):
        return None
    is_tiled = firsts == firsts[:samples] * copies
    is_interleaved = firsts == [each for each in firsts[::copies] for _ in range(copies)]
    axis = rows(copies, samples, row, "tiled" if is_tiled else "interleaved") if is_tiled or is_interleaved else None
    return None if axis is None else (axis, *(None for _ in range(rank - 1)))


def _first_part(flow: Dataflow, tensor: int, before: int) -> int | None:
    """The tensor with which a ``cat`` begins that made another one."""
    made = flow.newest_producer(tensor, before)
    call = None if made is None else flow.log.calls[made]
    is_joined = call is not None and plain_name(call.function) in _JOIN_SEQUENCES and len(call.inputs) > 1
    return call.inputs[0].tensor if call is not None and is_joined else None


_JOIN_SEQUENCES = frozenset({"cat", "concat", "concatenate", "hstack"})


def _copies_of_one(flow: Dataflow, tensor: int, before: int) -> int | None:
    """How many copies of one tensor were stacked, if the same line made each of them from it."""
    made = flow.newest_producer(tensor, before)
    call = None if made is None else flow.log.calls[made]
    if (
        made is None
        or call is None
        or plain_name(call.function) != "stack"
        or axis_of(call, _MAX_RANK) not in (0, None)
    ):
        return None
    parts = [(use.tensor, flow.newest_producer(use.tensor, made)) for use in call.inputs]
    lines = {None if part is None else location_of_call(flow, part) for _, part in parts}
    shape = shape_of(flow, parts[0][0]) if parts else ()
    if None in lines or len(lines) > 1 or not 1 < len(parts) <= _MAX_COPIES or not shape:
        return None
    sources = [_sources(flow, part, made, ()) for part, _ in parts]
    shared = set.intersection(*(set() if each is None else each.same for each in sources))
    return len(parts) if any(shape_of(flow, each) == shape for each in shared) else None


_MAX_RANK = 8
_MIN_PAIRED = 6
_MAX_COPIES = 256
_MAX_MAKERS = 300
_BOTH = 2


class _Sources(Struct):
    """Where the rows of a tensor come from."""

    same: set[int]
    """Tensors with the same rows from which it was computed."""
    selected: set[tuple[int, object]]
    """Tensors of which rows were selected, each with what selected them, or with what was selected."""


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
            by_index = tuple(use.tensor for use in call.inputs[1:])
            found.selected.add((call.inputs[0].tensor, by_index or given))
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
