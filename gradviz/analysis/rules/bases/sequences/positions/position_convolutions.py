"""Convolutions over time: how many positions after its own each result reads.

A convolution may have more results than positions, of which the next call leaves some out: then these two are looked
at as one.
"""

from __future__ import annotations

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

_TWO = 2
_TRIMS = frozenset({"getitem", "narrow"})


class Reach(Struct, frozen=True):
    """What the results of a convolution read of a sequence."""

    row: int
    """The convolution."""
    after: int
    """How many positions after its own each result reads; below zero, it does not even read its own."""
    tensor: int
    """The sequence, as the call `before` received it."""
    before: int
    trim: int | None = None
    """The call that left out some results, if it left out the first ones."""
    left_out: int = 0
    """How many first ones."""


def convolution_reach(flow: Dataflow, row: int, lengths: frozenset[int]) -> Reach | None:
    """What a call reads, if it is a convolution with one result for each position of a sequence of one of these
    lengths, or leaves out the other results of one."""
    call = flow.log.calls[row]
    trim, first = None, 0
    if plain_name(call.function) in _TRIMS and len(call.inputs) == 1 and call.outputs:
        made = flow.newest_producer(call.inputs[0].tensor, row)
        if made is None or not _is_shorter_at_the_end(flow, call):
            return None
        first = _start(call)
        length, trim = shape_of(flow, call.outputs[0].tensor)[-1], row if first else None
        row, call = made, flow.log.calls[made]
    else:
        length = (
            shape_of(flow, call.outputs[0].tensor)[-1] if call.outputs and shape_of(flow, call.outputs[0].tensor) else 0
        )
    if plain_name(call.function) != "conv1d" or length not in lengths or len(call.inputs) < _TWO:
        return None
    kernel = shape_of(flow, call.inputs[1].tensor)[-1]
    tensor, before, padded = call.inputs[0].tensor, row, 0
    maker = flow.producers(tensor, row)
    if maker and plain_name(flow.log.calls[maker[-1]].function) == "pad":
        pad = flow.log.calls[maker[-1]]
        tensor, before, padded = pad.inputs[0].tensor, maker[-1], _number(pad, "1[0]") or 0
    if shape_of(flow, tensor)[-1] != length or (_number(call, "3[0]", "3", "stride", "stride[0]") or 1) != 1:
        return None
    after = _last_read(call, kernel) - padded + first
    return Reach(row, after, tensor, before, trim, first)


def has_whole_kernel(flow: Dataflow, reach: Reach) -> bool:
    """Whether no number in the kernel is zero, as where a mask hides later positions."""
    kernel = flow.log.calls[reach.row].inputs[1].tensor
    values = flow.values(kernel, reach.row)
    if shape_of(flow, kernel)[-1] < _TWO or (values is not None and values.zeros):
        return False
    # A normalized kernel is computed from parameters at each call.
    return flow.log.tensors[kernel].role == "parameter" or (values is not None and _is_of_parameters(flow, reach.row))


def _is_of_parameters(flow: Dataflow, convolution: int) -> bool:
    kernel = flow.log.calls[convolution].inputs[1].tensor
    made = flow.newest_producer(kernel, convolution)
    call = None if made is None else flow.log.calls[made]
    return call is not None and any(flow.log.tensors[use.tensor].role == "parameter" for use in call.inputs)


def _last_read(call: Call, kernel: int) -> int:
    """The last position that the first result reads.

    >>> _last_read(Call("conv1d", scalars={"4": "same"}), 3)
    1
    """
    dilation = _number(call, "5[0]", "5", "dilation", "dilation[0]") or 1
    padding = _number(call, "4[0]", "4", "padding", "padding[0]") or 0
    is_same = any(call.scalars.get(place) == "same" for place in ("4", "padding"))
    reach = dilation * (kernel - 1)
    return reach // _TWO if is_same else reach - padding


def _is_shorter_at_the_end(flow: Dataflow, call: Call) -> bool:
    """Whether only the last axis became shorter."""
    given, made = (shape_of(flow, use.tensor) for use in (call.inputs[0], call.outputs[0]))
    return len(given) == len(made) > 0 and given[:-1] == made[:-1] and given[-1] > made[-1]


def _start(call: Call) -> int:
    """How many of the first elements a slice leaves out."""
    if plain_name(call.function) == "narrow":
        return _number(call, "2", "start") or 0
    starts = (value for place, value in call.scalars.items() if place.endswith(".start"))
    return next((value for value in starts if type(value) is int and value > 0), 0)


def _number(call: Call, *places: str) -> int | None:
    return next((value for value in map(call.scalars.get, places) if type(value) is int), None)
