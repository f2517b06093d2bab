"""Calls that spread one value for each column of a tensor along its last axis, by broadcasting or by ``expand()``."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.graph.call_log import Call

SPREAD_BY = frozenset({"mul", "add", "sub", "div", "addcmul", "addcdiv", "lerp", "pow", "normal", "einsum"})
"""They compute element by element, and broadcast what they are given."""
SPREADS = frozenset({"expand", "expand_as", "broadcast_to", "broadcast_tensors", "repeat", "tile"})
_VIEWS = frozenset({"unsqueeze", "getitem", "view", "reshape", "contiguous", "clone", "to", "float"})
_MAX_VIEWS = 3


def spread_along_last(flow: Dataflow, row: int, call: Call) -> Iterator[tuple[int, int]]:
    """Each tensor with a single axis that a call spreads along the last axis of another one, with that one."""
    shape = shape_of(flow, call.outputs[0].tensor) if call.outputs else ()
    if len(shape) < 2:
        return
    is_einsum = plain_name(call.function) == "einsum"
    shorts = dict(_of_einsum(flow, call, shape)) if is_einsum else {}
    for use in call.inputs if not is_einsum else ():
        short = _before_spreading(flow, row, use.tensor)
        if short is not None and shape_of(flow, short) == shape[-1:]:
            shorts[use.tensor] = short
    longs = [use.tensor for use in call.inputs if use.tensor not in shorts and shape_of(flow, use.tensor) == shape]
    yield from ((short, long) for short in shorts.values() for long in longs)


def _before_spreading(flow: Dataflow, row: int, tensor: int) -> int | None:
    """The tensor with a single axis that another one repeats in all other axes."""
    for _ in range(_MAX_VIEWS):
        shape = shape_of(flow, tensor)
        if len(shape) == 1:
            return tensor
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or not call.inputs:
            return None
        place = next((index for index, use in enumerate(call.outputs) if use.tensor == tensor), 0)
        above = call.inputs[place].tensor if place < len(call.inputs) else call.inputs[0].tensor
        name, before = plain_name(call.function), shape_of(flow, above)
        is_spread = name in SPREADS and before[-1:] == shape[-1:] and all(size == 1 for size in before[:-1])
        is_view = name in _VIEWS and len(call.inputs) == 1 and all(size == 1 for size in shape[:-1])
        if not is_spread and not (is_view and before[-1:] == shape[-1:]):
            return None
        row, tensor = made, above
    return tensor if len(shape_of(flow, tensor)) == 1 else None


def _of_einsum(flow: Dataflow, call: Call, shape: Shape) -> Iterator[tuple[int, int]]:
    """The same for ``einsum("bd,d->bd", x, level)``."""
    equation = equation_of(call)
    result = equation.result
    for use, term in zip(call.inputs, equation.terms, strict=False):
        if len(term) == 1 and result.endswith(term) and len(result) == len(shape) and shape_of(flow, use.tensor):
            yield use.tensor, use.tensor
