"""The sides of overlaps: the smaller of two ends, less the larger of two beginnings."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

_BOTH = 2
PARTS_OF_BOXES = frozenset({"getitem", "select", "unbind", "chunk", "split", "squeeze", "unsqueeze"})
_MAX_PARTS = 4
_SMALLER, _LARGER = frozenset({"minimum", "min", "fmin"}), frozenset({"maximum", "max", "fmax"})


def ends_of_overlap(flow: Dataflow, row: int) -> tuple[int, int] | None:
    """The calls that chose the smaller ends and the larger beginnings, if a call subtracts these from those."""
    call = flow.log.calls[row]
    if plain_name(call.function) != "sub" or len(call.inputs) != _BOTH:
        return None
    end = _of_two(flow, call, 0, row, _SMALLER)
    beginning = None if end is None else _of_two(flow, call, 1, row, _LARGER)
    return None if end is None or beginning is None else (end, beginning)


def _of_two(flow: Dataflow, call: Call, side: int, row: int, names: frozenset[str]) -> int | None:
    """The call of one of these functions of two tensors that made an input, or what it is a part of."""
    for made, maker in flow.makers(call.inputs[side].tensor, row, _MAX_PARTS):
        if plain_name(maker.function) in names:
            return made if len(maker.inputs) == _BOTH else None
        if plain_name(maker.function) not in PARTS_OF_BOXES:
            return None
    return None
