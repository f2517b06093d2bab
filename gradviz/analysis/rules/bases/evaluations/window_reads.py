"""Which windows of a stored series a program reads, with gradients and without them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.batches.drawn_rows import picked_row
from gradviz.analysis.rules.bases.sequences.part_of_inputs import slice_of
from gradviz.graph.call_log import Call


class Windows(Struct, frozen=True):
    """A table with one window of a series in each row, where a window begins before the last one has ended."""

    step: int
    """From the start of one window to that of the next one."""
    length: int
    rows: int
    """How many windows there are."""


class WindowReads(Struct, frozen=True):
    """Windows of one length that were read one by one."""

    length: int
    trained: tuple[int, ...]
    """Where those begin that were read with gradients, in the order of the calls."""
    scored: tuple[int, ...]
    """Where those begin that were read without gradients."""
    first_read: int
    """The call that read the first one."""


_MIN_WINDOWS = 8
_MIN_EXPECTED = 20
_SLICES = frozenset({"getitem", "narrow"})


def tables_of_windows(flow: Dataflow) -> dict[int, Windows]:
    """By memory: tables of overlapping windows, from ``unfold()``, or stacked from slices of one series."""
    found: dict[int, Windows] = {}
    for row, call in calls_named(flow, ("unfold", "stack")):
        windows = _unfolded(flow, call) if plain_name(call.function) == "unfold" else _stacked(flow, row, call)
        if windows is not None and windows.step < windows.length and _is_measured(flow, call.outputs[0].tensor):
            found[flow.memory_of(call.outputs[0].tensor)] = windows
    return found


def table_of(flow: Dataflow, tables: dict[int, Windows], tensor: int) -> Windows | None:
    """The table of which a tensor has most rows, or parts of these. The series itself may have the same memory, and
    more rows."""
    table, shape = tables.get(flow.memory_of(tensor)), shape_of(flow, tensor)
    has_rows = table is not None and len(shape) > 1 and table.rows // 2 <= shape[0] <= table.rows
    return table if has_rows else None


def window_reads(flow: Dataflow, tables: dict[int, Windows]) -> Iterator[WindowReads]:
    """For each series and length: the windows that were read by their numbers, or by where they begin and end."""
    starts: dict[tuple[int, int], dict[tuple[bool, int | None], list[int]]] = defaultdict(lambda: defaultdict(list))
    first: dict[tuple[int, int], int] = {}
    for row in flow.rows_of_kind("operation"):
        call = flow.log.calls[row]
        read = _window(flow, call, tables)
        if read is not None:
            series, start, length = read
            starts[series, length][call.grad_mode == "enabled", call.call_site].append(start)
            first.setdefault((series, length), row)
    for key, of_lines in starts.items():
        # Of each kind those of one line: another line may read what follows each window, with the same length.
        trained = max((each for (is_trained, _), each in of_lines.items() if is_trained), key=len, default=[])
        scored = max((each for (is_trained, _), each in of_lines.items() if not is_trained), key=len, default=[])
        if trained and scored:
            yield WindowReads(key[1], tuple(trained), tuple(scored), first[key])


def held_out_among(reads: WindowReads) -> tuple[int, int] | None:
    """How many windows were only scored though they overlap trained ones at both of their ends, and of how many that
    were only scored; None if it may be chance which windows were trained, or if all were, or every few of them."""
    trained = sorted(set(reads.trained))
    held_out = sorted(set(reads.scored) - set(trained))
    are_every_few = len({after - before for before, after in pairwise(trained)}) <= 1
    are_parts = _are_passes(reads.trained, len(trained)) or _are_kept_apart(reads, len(trained))
    if are_every_few or len(held_out) < _MIN_WINDOWS or not are_parts:
        return None
    return sum(_is_among(start, trained, reads.length) for start in held_out), len(held_out)


def _are_passes(starts: tuple[int, ...], count: int) -> bool:
    """Whether windows were read in passes over the same `count` ones, each once in a pass."""
    return count >= _MIN_WINDOWS and len(starts) >= count + count // 2 and len(set(starts[:count])) == count


def _are_kept_apart(reads: WindowReads, count: int) -> bool:
    """Whether so many windows were read in training that some of the scored ones would be among them, if all were read
    by chance, and none is. Of a long training, not all reads are recorded."""
    scored = set(reads.scored)
    expected = len(reads.trained) * len(scored) / max(count + len(scored), 1)
    return scored.isdisjoint(reads.trained) and expected >= _MIN_EXPECTED


def _is_among(start: int, trained: list[int], length: int) -> bool:
    place = bisect_left(trained, start)
    is_before = place > 0 and start - trained[place - 1] < length
    return is_before and place < len(trained) and trained[place] - start < length


def _is_measured(flow: Dataflow, tensor: int) -> bool:
    """Whether a series has floating-point numbers: of letters and words, neighbours do not tell what a window asks."""
    return "float" in (flow.log.tensors[tensor].facts.dtype or "")


def _window(flow: Dataflow, call: Call, tables: dict[int, Windows]) -> tuple[int, int, int] | None:
    """The series, where a window of it begins, and its length."""
    name = plain_name(call.function)
    if name not in _SLICES or len(call.inputs) != 1 or not call.outputs or call.live_inputs:
        return None
    source = call.inputs[0].tensor
    if not _is_measured(flow, source):
        return None
    table, number = table_of(flow, tables, source), picked_row(call)
    if table is not None and number is not None:
        return source, number * table.step, table.length
    part = slice_of(flow, call, name, call.outputs[0].tensor)
    if table is None and part is not None and part.axis == 0 and part.length > 1:
        return source, part.start, part.length
    return None


def _unfolded(flow: Dataflow, call: Call) -> Windows | None:
    size, step = call.scalars.get("2", call.scalars.get("size")), call.scalars.get("3", call.scalars.get("step"))
    axis = call.scalars.get("1", call.scalars.get("dimension"))
    is_of_rows = axis == 0 or axis == -len(shape_of(flow, call.inputs[0].tensor))
    rows = shape_of(flow, call.outputs[0].tensor)[0]
    return Windows(step, size, rows) if is_of_rows and type(size) is int and type(step) is int else None


def _stacked(flow: Dataflow, row: int, call: Call) -> Windows | None:
    """Slices of one series at equal steps, stacked in their order."""
    if len(call.inputs) < _MIN_WINDOWS or call.live_inputs:
        return None
    parts = []
    for use in call.inputs:
        made = flow.newest_producer(use.tensor, row)
        window = None if made is None else _window(flow, flow.log.calls[made], {})
        if window is None:
            return None
        parts.append(window)
    steps = Counter(after[1] - before[1] for before, after in pairwise(parts))
    is_one = len({(series, length) for series, _, length in parts}) == 1 and len(steps) == 1
    step = next(iter(steps))
    return Windows(step, parts[0][2], len(parts)) if is_one and step > 0 else None
