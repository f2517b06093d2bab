"""Windows that are scaled by their own mean or bounds, before they are cut into what a model reads and its target."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from gradviz.analysis.dataflow.axes import axes_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import DIFFERENCES, calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.means import WITH_MEANS
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.sequences.part_of_inputs import KEEPS, Slice, data_read, slice_of
from gradviz.graph.call_log import Call


class ScaledWindow(Struct, frozen=True):
    """A window of which a model reads one part, and is to tell the other one."""

    mean: int
    """The call that computes the mean or the bound of the whole window."""
    compared: int
    """The loss."""
    history: int
    """How many steps the model reads."""
    horizon: int
    """How many steps it is to tell."""


class _Scaled(Struct, frozen=True):
    """A difference with a mean."""

    mean: int
    """The call that computes the mean."""
    whole: int
    """What it is the mean of."""
    is_alone: bool
    """Whether it is a single window that is stacked with others later."""


class _Path(Struct):
    """What a tensor was cut from, and by what it was scaled on the way."""

    parts: dict[int, Slice]
    """By tensor: which part of it this is."""
    scaled: list[_Scaled]
    is_stacked: bool = False


_STATISTICS = WITH_MEANS | {"min", "amin", "median", "nanmean", "nanmedian"}
_SCALES = frozenset({"sub", "div", "mul", "add", "clamp", "nan_to_num"})
_TABLES = frozenset({"getitem", "index_select"})
_MAX_CALLS = 20
_MOST_LOSSES = 4
_BOTH = 2


def scaled_windows(flow: Dataflow) -> Iterator[ScaledWindow]:
    """One for each line that compares a prediction with a part of a window."""
    sites: dict[int | None, list[int]] = {}
    for row, call in calls_named(flow, DIFFERENCES):
        if sorted(use.requires_grad for use in call.inputs[:_BOTH]) == [False, True] and flow.has_step_after(row):
            sites.setdefault(call.call_site, []).append(row)
    for rows in sites.values():
        found = [each for row in rows[:_MOST_LOSSES] for each in islice(_scaled_at(flow, row), 1)]
        # One series that is cut once is not a window of many.
        if found and (len({each.mean for each, _ in found}) > 1 or not found[0][1]):
            yield found[0][0]


def _scaled_at(flow: Dataflow, row: int) -> Iterator[tuple[ScaledWindow, bool]]:
    """The scaled windows of one loss, each with whether it may be the only one."""
    first, second = flow.log.calls[row].inputs[:_BOTH]
    live, dead = (first, second) if first.requires_grad else (second, first)
    target = _path(flow, dead.tensor, row)
    for each, use in data_read(flow, live.tensor, row) if target.parts else ():
        read = _path(flow, use.tensor, each)
        for scaled in read.scaled:
            given, wanted = read.parts.get(scaled.whole), target.parts.get(scaled.whole)
            size = shape_of(flow, scaled.whole)
            if given is None or wanted is None or given.axis != wanted.axis or given.axis >= len(size):
                continue
            is_history = given.start == 0 and given.length == wanted.start
            is_cut = is_history and wanted.start + wanted.length == size[given.axis]
            if is_cut and _averages(flow, scaled, given.axis):
                is_single = given.axis == 0 and not scaled.is_alone
                yield ScaledWindow(scaled.mean, row, given.length, wanted.length), is_single


def _averages(flow: Dataflow, scaled: _Scaled, axis: int) -> bool:
    """Whether a mean is that over an axis, and of single windows."""
    rank = len(shape_of(flow, scaled.whole))
    axes = axes_of(flow.log.calls[scaled.mean], rank) or list(range(rank))
    return axis in axes and (axis == 0 or scaled.is_alone or 0 not in axes)


def _path(flow: Dataflow, tensor: int, row: int) -> _Path:
    """How a tensor was made of the data, back through slices and arithmetic; of stacked ones the first one."""
    path, part = _Path({}, []), None
    for _ in range(_MAX_CALLS):
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or not call.inputs or call.kind != "operation" or call.live_inputs:
            break
        given, result = shape_of(flow, call.inputs[0].tensor), shape_of(flow, tensor)
        name = plain_name(call.function)
        cut = _cut(flow, call, name, tensor)
        is_of_rows = name in _TABLES and len(call.inputs) == _BOTH and given[1:] == result[1:]
        if cut is not None and cut.axis > 0 and part is not None and part.axis != cut.axis:
            break
        if cut is not None and (part is None or part.axis == cut.axis):
            part = Slice(cut.axis, cut.start + (part.start if part else 0), part.length if part else cut.length)
        elif name == "stack" and call.scalars.get("dim", call.scalars.get("1", 0)) == 0 and not path.is_stacked:
            path.is_stacked = True
            if part is not None and part.axis == 0:
                break
            part = None if part is None else Slice(part.axis - 1, part.start, part.length)
        elif name in _SCALES and given == result:
            mean = _mean_taken(flow, call, made) if name == "sub" else None
            if mean is not None:
                path.scaled.append(_Scaled(*mean, path.is_stacked))
        elif not (is_of_rows and (part is None or part.axis > 0)) and (
            name not in KEEPS or (part is not None and given != result)
        ):
            break
        tensor, row = call.inputs[0].tensor, made
        if part is not None:
            path.parts[tensor] = part
    return path


def _mean_taken(flow: Dataflow, call: Call, row: int) -> tuple[int, int] | None:
    """The mean or the bound that a difference takes away: the call that computes it, and of what."""
    made = value_maker(flow, call.inputs[1].tensor, row) if len(call.inputs) == _BOTH else None
    if made is None or plain_name(made[1].function) not in _STATISTICS or not made[1].inputs:
        return None
    return made[0], made[1].inputs[0].tensor


def _cut(flow: Dataflow, call: Call, name: str, result: int) -> Slice | None:
    """The part of one axis that a call takes, also where it takes one column beside it: ``z[48:, 0]``."""
    part = slice_of(flow, call, name, result)
    if part is not None or name != "getitem" or len(call.inputs) != 1:
        return part
    given, bounds = shape_of(flow, call.inputs[0].tensor), dict[int, dict[str, int]]()
    for place, value in call.scalars.items():
        place, _, bound = place.partition("].")
        if bound in ("start", "stop") and type(value) is int and place.startswith("1["):
            bounds.setdefault(int(place[2:]), {})[bound] = value
    if len(bounds) != 1 or any(axis >= len(given) for axis in bounds):
        return None
    axis, found = next(iter(bounds.items()))
    start, stop = found.get("start", 0), found.get("stop", given[axis])
    start, stop = (each + given[axis] if each < 0 else min(each, given[axis]) for each in (start, stop))
    return Slice(axis, start, stop - start) if 0 <= start < stop else None
