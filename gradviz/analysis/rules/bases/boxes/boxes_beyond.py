"""Overlaps of predicted boxes, which have bounds, with boxes of the data that are in other units, far beyond."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import calls_named
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.boxes.overlaps import ends_of_overlap
from gradviz.analysis.rules.bases.boxes.value_bounds import Bounds, bounds_of


class BoxesBeyond(Struct, frozen=True):
    """An overlap of predictions that have bounds with data beyond these."""

    row: int
    """The call that subtracts beginnings from ends."""
    bounds: Bounds
    lowest: float
    """The values of the data."""
    highest: float

    @property
    def is_beyond(self) -> bool:
        """Whether the data reach further beyond the bounds than these are apart."""
        span = self.bounds.high - self.bounds.low
        return self.highest > self.bounds.high + span or self.lowest < self.bounds.low - span


def boxes_beyond(flow: Dataflow) -> Iterator[BoxesBeyond]:
    """The last overlap of each line at which, every time, the data are far beyond the predictions."""
    lines: dict[int | None, list[BoxesBeyond | None]] = defaultdict(list)
    for row, call in calls_named(flow, ("sub",)):
        if not call.live_inputs or not flow.has_step_after(row):
            continue
        ends = ends_of_overlap(flow, row) if len(lines[call.call_site]) < _MAX_TRIED else None
        if ends is not None:
            lines[call.call_site].append(_beyond(flow, row, ends))
    for tried in lines.values():
        last = tried[-1] if tried else None
        if last is not None and len(tried) >= _MIN_TIMES and all(each is not None and each.is_beyond for each in tried):
            yield last


def leaves_without_overlap(case: Case, row: int) -> tuple[str, ...]:
    """The leaves whose gradient is zero because of what a call computes."""
    flow = case.dataflow
    until = next(iter(case.backward_calls.next_after(row, 1)), None)
    below = flow.descendants(flow.log.calls[row].outputs[0].tensor, row, until)
    sites = {flow.log.calls[each].call_site for each in below}
    dead = [
        zero.leaves
        for zero in case.zero_gradients
        if zero.call is not None and flow.log.calls[zero.call].call_site in sites
    ]
    return tuple(dict.fromkeys(leaf for leaves in dead for leaf in leaves))


_MAX_TRIED = 20
_MIN_TIMES = 2


def _beyond(flow: Dataflow, row: int, ends: tuple[int, int]) -> BoxesBeyond | None:
    bounds, data = list[Bounds](), list[float]()
    for each in ends:
        uses = flow.log.calls[each].inputs
        live, fixed = [use for use in uses if use.requires_grad], [use for use in uses if not use.requires_grad]
        values = flow.values_of(fixed[0], each) if fixed else None
        found = bounds_of(flow, live[0], each) if live else None
        if found is None or values is None or values.minimum is None or values.maximum is None:
            return None
        bounds.append(found)
        data += [values.minimum, values.maximum]
    low, high = min(each.low for each in bounds), max(each.high for each in bounds)
    return BoxesBeyond(row, Bounds(bounds[0].row, low, high), min(data), max(data))
