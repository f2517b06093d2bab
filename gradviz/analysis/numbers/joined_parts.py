"""Tensors that are put together, and the masks that go with them: a mask may hide just what was put in."""

from __future__ import annotations

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import callers, function_of, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

_JOINS = frozenset({"cat", "stack", "hstack", "vstack", "pad"})
_MAKE_MASKS = frozenset({"cat", "pad", "zeros", "zeros_like", "new_zeros"})
_NEAR = 30


def is_join(call: Call) -> bool:
    """Whether a function only puts tensors together, so that each gets its part of the gradient."""
    return plain_name(call.function) in _JOINS


def site_of_mask(flow: Dataflow, row: int) -> int | None:
    """The line of the same function that makes a mask with zeros in it, as long as what a call puts together."""
    call, own = flow.log.calls[row], next(callers(flow, row), None)
    axis = call.scalars.get("dim", call.scalars.get("1", 0))
    shape = shape_of(flow, call.outputs[0].tensor) if call.outputs else ()
    if own is None or type(axis) is not int or not -len(shape) <= axis < len(shape):
        return None
    for each in range(max(row - _NEAR, 0), min(row + _NEAR, len(flow.log.calls))):
        made, line = flow.log.calls[each], next(callers(flow, each), None)
        if plain_name(made.function) not in _MAKE_MASKS or line is None or len(made.outputs) != 1 or each == row:
            continue
        mask = made.outputs[0]
        values = flow.values_of(mask, each)
        is_mask = values is not None and values.minimum == 0 and values.maximum in (0, 1) and not mask.requires_grad
        is_near = (line.file, function_of(line)) == (own.file, function_of(own))
        if is_mask and is_near and shape_of(flow, mask.tensor)[-1:] == (shape[axis],):
            return made.call_site
    return None
