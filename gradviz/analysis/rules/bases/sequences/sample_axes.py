"""Along which axis of a batch of sequences its samples lie, and along which its time steps, as the data say."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import RECURRENT_CELLS
from gradviz.analysis.rules.bases.batches.axis_sources import sources_of_axis
from gradviz.analysis.rules.bases.batches.drawn_rows import are_drawn_numbers
from gradviz.graph.call_log import Call

_TAKES = frozenset({"getitem", "index_select"})
_BOTH = 2


def draw_along(flow: Dataflow, tensor: int, axis: int, row: int) -> int | None:
    """The call that took samples by drawn numbers, if they lie along an axis of a tensor."""
    for given, place in sources_of_axis(flow, tensor, axis, row) or ():
        made = flow.newest_producer(given, row) if place == 0 else None
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or plain_name(call.function) not in _TAKES or len(call.inputs) != _BOTH:
            continue
        index = call.inputs[1]
        is_first = index.place in ("1", "1[0]") or call.scalars.get("1", call.scalars.get("dim")) == 0
        if is_first and not call.inputs[0].requires_grad and are_drawn_numbers(flow, index.tensor, made):
            return made
    return None


def is_shifted_along(flow: Dataflow, tensor: int, axis: int, row: int) -> bool:
    """Whether a tensor was cut off at one end of an axis, and something else is the same cut off at the other end, as
    the inputs and the targets of a forecast are."""
    for given, place in sources_of_axis(flow, tensor, axis, row) or ():
        made = flow.newest_producer(given, row)
        end = None if made is None else _end_cut_off(flow.log.calls[made], place)
        if made is None or end is None:
            continue
        base = flow.log.calls[made].inputs[0].tensor
        others = (flow.log.calls[user] for user in flow.users(base) if user != made)
        if any(_end_cut_off(other, place) not in (None, end) for other in others):
            return True
    return False


def _end_cut_off(call: Call, axis: int) -> str | None:
    """``start`` of ``x[:, 1:]`` along axis 1, ``stop`` of ``x[:, :-1]``."""
    if plain_name(call.function) != "getitem" or len(call.inputs) != 1 or len(call.scalars) != 1:
        return None
    (place,) = call.scalars
    index, _, end = place.partition(".")
    is_here = index == f"1[{axis}]" or (axis == 0 and index == "1")
    return end if is_here and end in ("start", "stop") else None


class CellLoop(Struct, frozen=True):
    """A recurrent cell that runs along an axis of a tensor."""

    cell: int
    """Its first call."""
    taken: int
    """The call that took what it got."""
    sequence: int
    axis: int


def cell_loops(flow: Dataflow) -> Iterator[CellLoop]:
    """The first loop of each line that calls a recurrent cell in a training."""
    first: dict[int | None, int] = {}
    seen = set[int | None]()
    for row, call in calls_named(flow, RECURRENT_CELLS):
        if call.call_site in seen or not call.outputs:
            continue
        before = first.setdefault(call.call_site, row)
        if before == row:
            continue
        seen.add(call.call_site)
        one, other = _step(flow, before), _step(flow, row)
        returned = {use.tensor for use in flow.log.calls[before].outputs}
        is_chained = any(use.tensor in returned for use in call.inputs)
        is_one_loop = one is not None and other is not None and one[1:] == other[1:]
        if one is not None and is_chained and is_one_loop and flow.has_step_after(row):
            yield CellLoop(before, *one)


def _step(flow: Dataflow, cell: int) -> tuple[int, int, int] | None:
    """The call that took one step for a cell, the sequence, and the axis of it."""
    given = flow.log.calls[cell].inputs[0].tensor
    made = flow.newest_producer(given, cell)
    call = None if made is None else flow.log.calls[made]
    if made is None or call is None or not call.inputs or len(call.inputs) != 1:
        return None
    name, rank = plain_name(call.function), len(shape_of(flow, call.inputs[0].tensor))
    axis: object = None
    if name in ("unbind", "select"):
        axis = call.scalars.get("dim", call.scalars.get("1", 0))
    elif name == "getitem" and rank == len(shape_of(flow, given)) + 1:
        places = [place for place, value in call.scalars.items() if type(value) is int and "." not in place]
        axis = 0 if places == ["1"] else int(places[0][2:-1]) if len(places) == 1 and places[0].endswith("]") else None
    if type(axis) is not int or rank != _BOTH + 1:
        return None
    return made, call.inputs[0].tensor, axis % rank
