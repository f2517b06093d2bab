"""Convolutions over time: how many positions after its own each result reads.

>>> _padding_after(Call("conv1d", scalars={"4": "same"}), 3, (2, 4, 9), (2, 4, 9))
1
"""

from __future__ import annotations

from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

_TWO = 2


def positions_after(flow: Dataflow, row: int, call: Call, lengths: frozenset[int]) -> tuple[int, int, int] | None:
    """How many positions after its own each result reads of a sequence of one of these lengths, and of which tensor,
    as the call with that number received it; None if it reads none."""
    given, made = (shape_of(flow, use.tensor) for use in (call.inputs[0], call.outputs[0]))
    kernel = shape_of(flow, call.inputs[1].tensor)[-1]
    weight = flow.log.tensors[call.inputs[1].tensor]
    values = flow.values(call.inputs[1].tensor, row)
    if weight.role != "parameter" or made[-1] not in lengths or kernel < _TWO or (values and values.zeros):
        return None
    tensor, before, after = call.inputs[0].tensor, row, _padding_after(call, kernel, given, made)
    maker = flow.producers(tensor, row)
    if maker and plain_name(flow.log.calls[maker[-1]].function) == "pad":
        pad = flow.log.calls[maker[-1]]
        tensor, before, after = pad.inputs[0].tensor, maker[-1], _number(pad, "1[1]") or 0
    return (after, tensor, before) if after > 0 and shape_of(flow, tensor)[-1] == made[-1] else None


def _padding_after(call: Call, kernel: int, given: Shape, made: Shape) -> int:
    """How many positions after its own each result reads, if there are as many results as positions."""
    dilation = _number(call, "5[0]", "5", "dilation", "dilation[0]") or 1
    padding = _number(call, "4[0]", "4", "padding", "padding[0]")
    is_same = any(call.scalars.get(place) == "same" for place in ("4", "padding"))
    if given[-1] != made[-1]:
        return 0
    reach = dilation * (kernel - 1)
    return reach // _TWO if is_same else reach - (padding or 0)


def _number(call: Call, *places: str) -> int | None:
    return next((value for value in map(call.scalars.get, places) if type(value) is int), None)
