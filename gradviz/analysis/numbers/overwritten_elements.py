"""Values that are assigned to elements of a tensor, and that a later assignment to the same elements replaces."""

from __future__ import annotations

from itertools import combinations

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call


class Overwritten(Struct, frozen=True):
    """Two assignments to elements of one tensor."""

    row: int
    later: int


def overwritten(flow: Dataflow, tensor: int, first: int, last: int, row: int) -> Overwritten | None:
    """The first two between two calls, one of them `row`, of which the later covers all that the other assigned with a
    gradient. Indices that are tensors are left out."""
    rows = [
        each for each in flow.changes(tensor, first, last) if plain_name(flow.log.calls[each].function) == "setitem"
    ]
    for earlier, later in combinations(rows[:_MOST], 2):
        one, other = flow.log.calls[earlier], flow.log.calls[later]
        is_live = any(use.requires_grad for use in one.inputs[1:])
        is_one_tensor = one.inputs[0].tensor == other.inputs[0].tensor
        if row in (earlier, later) and is_live and is_one_tensor and _covers(flow, other, one):
            return Overwritten(earlier, later)
    return None


_MOST = 24
_BOTH = 2


def _covers(flow: Dataflow, later: Call, earlier: Call) -> bool:
    shape = shape_of(flow, later.inputs[0].tensor)
    if max(len(later.inputs), len(earlier.inputs)) > _BOTH:
        return False
    wide, narrow = (_intervals(call, shape) for call in (later, earlier))
    if wide is None or narrow is None:
        return False
    return all(begin <= own[0] and own[1] <= end for (begin, end), own in zip(wide, narrow, strict=True))


def _intervals(call: Call, shape: tuple[int, ...]) -> list[tuple[int, int]] | None:
    """For each axis the elements that an assignment takes; None if it takes only some of those between.

    An index of one number or slice is noted as ``1``, several as ``1[0]``, ``1[1]``.
    """
    told = {place if place.startswith("1[") else f"1[0]{place[1:]}": value for place, value in call.scalars.items()}
    found = list[tuple[int, int]]()
    for axis, size in enumerate(shape):
        at = told.get(f"1[{axis}]")
        begin, end, step = (told.get(f"1[{axis}].{part}") for part in ("start", "stop", "step"))
        if step not in (None, 1):
            return None
        bounds = (at % size, at % size + 1) if type(at) is int else slice(begin, end).indices(size)
        found.append(bounds[:2])
    return found
