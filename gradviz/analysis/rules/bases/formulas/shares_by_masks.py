"""Weights of a value on all points of a grid, which masks of its distances choose: those below it, and those above."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

_TABLE = 2
_MAX_FOLLOWED = 30
_MASKS = frozenset({"gt", "lt", "ge", "le", "eq", "ne", "abs", "sign"})
_PUTS_TOGETHER = frozenset({"add", "where", "sum"})


class LostShares(Struct, frozen=True):
    """A table of weights in which values that lie on a point of the grid have none."""

    mask: int
    """The call that leaves the points out that a value lies on."""
    row: int
    """The call that puts the weights of both sides together."""
    values: int
    """How many of these values there are."""


def shares_lost_by_masks(flow: Dataflow) -> Iterator[LostShares]:
    """Where distances are taken if they are more than 0, and if they are less, and no weight is left for 0 itself: the
    number of weights that are not zero is two for each of the other values, and none for these."""
    for row, call in calls_named(flow, ("lt",)):
        if not _is_with_zero(call) or not flow.has_step_after(row):
            continue
        distance = call.inputs[0]
        shape, values = shape_of(flow, distance.tensor), flow.values_of(distance, row)
        if len(shape) != _TABLE or values is None or not 0 < values.zeros < shape[0] or min(shape) <= _TABLE:
            continue
        compared = [(each, flow.log.calls[each]) for each in flow.users(distance.tensor)]
        strict = [each for each, user in compared if plain_name(user.function) == "gt" and _is_with_zero(user)]
        others = [user for _, user in compared if plain_name(user.function) in _MASKS - {"gt", "lt"}]
        if not strict or others:
            continue
        together = _put_together(flow, row, shape, shape[0] - values.zeros)
        if together is not None:
            yield LostShares(min(strict[0], row), together, values.zeros)


def _is_with_zero(call: Call) -> bool:
    return len(call.inputs) == 1 and call.scalars.get("1", call.scalars.get("other")) == 0


def _put_together(flow: Dataflow, row: int, shape: tuple[int, ...], split: int) -> int | None:
    """The call whose result has two weights for each value that is split, and no other ones."""
    until = next((each for each in flow.rows_of_kind("backward") if each > row), None)
    for each in flow.descendants(flow.log.calls[row].outputs[0].tensor, row, until)[:_MAX_FOLLOWED]:
        call = flow.log.calls[each]
        values = call.outputs[0].values if call.outputs else None
        if plain_name(call.function) not in _PUTS_TOGETHER or values is None or values.minimum is None:
            continue
        is_of_shares = values.minimum >= 0 and values.maximum is not None and values.maximum <= 1
        is_of_all = is_of_shares and shape_of(flow, call.outputs[0].tensor) == shape
        if is_of_all and values.count - values.zeros == _TABLE * split > 0:
            return each
    return None
