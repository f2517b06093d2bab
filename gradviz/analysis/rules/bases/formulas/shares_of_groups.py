"""Values that are divided by the sums of their groups: ``e / total.index_add(0, index, e)[index]``."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, argument, calls_in_training
from gradviz.analysis.rules.bases.samples.ends_of_edges import CHOOSE, end_of_edges, indexes_of


class Shares(Struct, frozen=True):
    """Values that were divided by the sums of their groups."""

    division: int
    total: int
    """The call that added up."""
    index: int
    """The integers by which it did, as the program has them before they get the shape of the values."""
    count: int
    """The groups, which are as many as the values."""


def shares_of_one(flow: Dataflow) -> Iterator[list[Shares]]:
    """By line that divides: its calls, if each value is always the whole sum of its group, so that no group has a
    second one that is not 0."""
    for rows in calls_in_training(flow, frozenset({"div"})):
        found = [_shares(flow, row) for row in rows if flow.has_step_after(row)]
        known = [each for each in found if each is not None]
        if len(known) >= _MIN_CALLS and len(known) == len(found):
            yield known


_MIN_CALLS = 2
_MIN_VALUES = 4
_ROUNDING = 1e-4
_SIDES = 2
_MAX_FOLLOWED = 12
_KEEPS = SHAPE_ONLY | {"add", "clamp", "clamp_min", "clip", "detach"}
_SUMS = frozenset({"index_add", "scatter_add"})


def _shares(flow: Dataflow, row: int) -> Shares | None:
    """Those of a division whose results are all 1."""
    call = flow.log.calls[row]
    made = call.outputs[0].values if call.outputs else None
    ends = () if made is None else (made.minimum, made.maximum)
    if len(call.inputs) != _SIDES or made is None or made.count < _MIN_VALUES:
        return None
    if any(end is None or abs(end - 1) > _ROUNDING for end in ends):
        return None
    taken, divisor = call.inputs
    chosen = None
    for maker, each in flow.makers(divisor.tensor, row, _MAX_FOLLOWED):
        name = plain_name(each.function)
        if name in _SUMS or (name == "scatter_reduce" and "sum" in each.scalars.values()):
            added = argument(each, 3, "source") or argument(each, 3, "src")
            index = indexes_of(flow, each)
            is_of_values = added is not None and _first(flow, added.tensor, maker) == _first(flow, taken.tensor, row)
            if index is None or chosen is None or not is_of_values:
                return None
            own, end = end_of_edges(flow, index, maker)
            return Shares(row, maker, own, shape_of(flow, own)[0]) if end == chosen and shape_of(flow, own) else None
        if name in CHOOSE and len(each.inputs) == _SIDES:
            index = indexes_of(flow, each)
            chosen = None if index is None else end_of_edges(flow, index, maker)[1]
        elif name not in _KEEPS:
            return None
    return None


def _first(flow: Dataflow, tensor: int, row: int) -> tuple[int, int]:
    """A tensor before it only got another shape, and how many values it has."""
    count = 0
    for _, call in flow.makers(tensor, row, _MAX_FOLLOWED):
        if plain_name(call.function) not in SHAPE_ONLY or len(call.inputs) != 1:
            break
        tensor, count = call.inputs[0].tensor, count + 1
    return tensor, len(shape_of(flow, tensor))
