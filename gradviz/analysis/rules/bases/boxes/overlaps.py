"""The sides of overlaps: the smaller of two ends, less the larger of two beginnings; or half of both sizes, less the
distance of the centres."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

_BOTH = 2
PARTS_OF_BOXES = frozenset({"getitem", "select", "unbind", "chunk", "split", "squeeze", "unsqueeze"})
_MAX_PARTS = 4
_SMALLER = frozenset({"minimum", "min", "fmin", "amin"})
_LARGER = frozenset({"maximum", "max", "fmax", "amax"})


def ends_of_overlap(flow: Dataflow, row: int) -> tuple[int, int] | None:
    """The calls that chose the smaller ends and the larger beginnings, if a call subtracts these from those."""
    call = flow.log.calls[row]
    is_difference = plain_name(call.function) == "sub" or call.scalars.get("alpha") == -1
    if not is_difference or len(call.inputs) != _BOTH:
        return None
    end = _of_two(flow, call, 0, row, _SMALLER)
    beginning = None if end is None else _of_two(flow, call, 1, row, _LARGER)
    return None if end is None or beginning is None else (end, beginning)


def _of_two(flow: Dataflow, call: Call, side: int, row: int, names: frozenset[str]) -> int | None:
    """The call of one of these functions of two tensors that made an input, or what it is a part of."""
    for made, maker in flow.makers(call.inputs[side].tensor, row, _MAX_PARTS):
        if _chooses(flow, made, maker, names):
            return made
        if plain_name(maker.function) not in PARTS_OF_BOXES:
            return None
    return None


def _chooses(flow: Dataflow, row: int, call: Call, names: frozenset[str]) -> bool:
    """Whether a call returns the smaller, or the larger, of two tensors: also of their stack, or as a bound."""
    name, places = plain_name(call.function), {use.place for use in call.inputs}
    if name in ("clamp", "clip", "clamp_min", "clamp_max"):
        bound = {"max", "2"} if names is _SMALLER else {"min"} | ({"1"} if "2" not in call.scalars else set())
        is_bound = {"clamp_max": names is _SMALLER, "clamp_min": names is _LARGER}.get(name, bool(places & bound))
        return is_bound and len(call.inputs) == _BOTH
    if name not in names:
        return False
    if len(call.inputs) != 1:
        return len(call.inputs) == _BOTH
    made = flow.newest_producer(call.inputs[0].tensor, row)
    stack = None if made is None else flow.log.calls[made]
    return stack is not None and plain_name(stack.function) == "stack" and len(stack.inputs) == _BOTH


# -- sides from centres ------------------------------------------------------------------------------------------------

_SCALES = frozenset({"div", "mul"})


def is_reach_less_distance(flow: Dataflow, row: int) -> bool:
    """Whether a call makes the sides of an overlap of centres and sizes: ``(p_size + q_size) / 2 - (p - q).abs()``."""
    call = flow.log.calls[row]
    is_difference = plain_name(call.function) == "sub" or call.scalars.get("alpha") == -1
    if not is_difference or len(call.inputs) != _BOTH:
        return False
    reach, distance = (_made_by(flow, use.tensor, row) for use in call.inputs)
    if reach is None or distance is None or plain_name(distance[1].function) != "abs":
        return False
    centres = _made_by(flow, distance[1].inputs[0].tensor, distance[0])
    values = flow.values(call.inputs[0].tensor, row)
    has_sizes = values is None or values.minimum is None or values.minimum >= 0
    return has_sizes and _is_of_two(reach[1], "add") and centres is not None and _is_of_two(centres[1], "sub")


def _is_of_two(call: Call, name: str) -> bool:
    return plain_name(call.function) == name and len(call.inputs) == _BOTH


def _made_by(flow: Dataflow, tensor: int, row: int) -> tuple[int, Call] | None:
    """The call that made a tensor, before it was multiplied by a number, or a part was taken."""
    for made, maker in flow.makers(tensor, row, _MAX_PARTS):
        is_scaled = plain_name(maker.function) in _SCALES and len(maker.inputs) == 1
        if not is_scaled and plain_name(maker.function) not in PARTS_OF_BOXES:
            return made, maker
    return None
