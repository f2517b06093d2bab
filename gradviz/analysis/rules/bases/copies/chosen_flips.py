"""Samples of which a mask says which ones are turned round: ``where(chosen, x.flip(-1), x)``, and
``x[chosen] = x[chosen].flip(-1)``."""

from __future__ import annotations

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, TensorUse

TURNS = frozenset({"flip", "fliplr", "flipud"})
_MAX_MAKERS = 8
MADE_OF_A_DRAW = frozenset({
    "view", "reshape", "unsqueeze", "squeeze", "expand", "lt", "gt", "le", "ge", "bool", "to", "getitem", "select",
    "bernoulli", "eq", "ne", "logical_not", "invert", "bitwise_not", "nonzero", "flatten", "unbind", "float", "round",
})  # fmt: skip


def turned_axes(call: Call, rank: int) -> frozenset[int]:
    """The axes along which a call turns values round, counted from the end."""
    if plain_name(call.function) != "flip":
        return frozenset({1 - rank if plain_name(call.function) == "fliplr" else -rank})
    told = [value for place, value in call.scalars.items() if type(value) is int and place[:1] in "1234d"]
    return frozenset(axis if axis < 0 else axis - rank for axis in told)


def chosen_flip(flow: Dataflow, row: int) -> tuple[frozenset[int], int, TensorUse] | None:
    """The axes along which a call turns those samples that a mask chooses, the tensor from which the mask was made, and
    the samples before; None for another call."""
    call = flow.log.calls[row]
    name = plain_name(call.function)
    if name not in ("where", "setitem"):
        return None
    chosen = next((use for use in call.inputs if _is_mask(flow, use)), None)
    values = [use for use in call.inputs if use is not chosen]
    if chosen is None or len(values) != 2:
        return None
    for turned, straight in (values, values[::-1]):
        axes = _turned(flow, turned.tensor, straight.tensor, row, is_written=name == "setitem")
        if axes and (name == "where" or straight is values[0]):
            return axes, _drawn(flow, chosen.tensor, row), straight
    return None


def _is_mask(flow: Dataflow, use: TensorUse) -> bool:
    return flow.log.tensors[use.tensor].facts.dtype == "bool"


def _turned(flow: Dataflow, tensor: int, straight: int, row: int, *, is_written: bool) -> frozenset[int]:
    """The axes along which one tensor is the other one, turned round; of the samples that a mask takes, if written."""
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    if made is None or call is None or plain_name(call.function) not in TURNS:
        return frozenset()
    source, before = call.inputs[0].tensor, made
    if is_written:
        taken = flow.newest_producer(source, made)
        if taken is None or plain_name(flow.log.calls[taken].function) != "getitem":
            return frozenset()
        source, before = flow.log.calls[taken].inputs[0].tensor, taken
    is_same = source == straight and before < row
    return turned_axes(call, len(shape_of(flow, call.inputs[0].tensor))) if is_same else frozenset()


def _drawn(flow: Dataflow, tensor: int, row: int) -> int:
    """What a mask was made of by comparisons and parts of it: its draw."""
    for made, call in flow.makers(tensor, row, _MAX_MAKERS):
        if plain_name(call.function) not in MADE_OF_A_DRAW or not call.inputs:
            return flow.log.calls[made].outputs[0].tensor
        tensor = call.inputs[0].tensor
    return tensor
