"""Softmaxes that a program writes itself: ``exp(s) / exp(s).sum(dim)``, ``exp(s - s.logsumexp(dim))``."""

from __future__ import annotations

from msgspec import Struct

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, TensorUse

_BOTH = 2
_MAX_SHAPES = 3
_SHAPES = frozenset({"unsqueeze", "view", "reshape", "expand", "expand_as", "getitem"})


class SoftmaxByHand(Struct, frozen=True):
    """One of them."""

    axis: int
    """Counted from the front."""
    scores: TensorUse
    """What it takes, as the call with the number `row` received it."""
    row: int


def softmax_by_hand(flow: Dataflow, row: int, call: Call) -> SoftmaxByHand | None:
    """The softmax whose last call this is; None for other calls, and for one of several in turns, as Sinkhorn's."""
    name = plain_name(call.function)
    if name == "div" and len(call.live_inputs) == len(call.inputs) == _BOTH:
        above, below = call.inputs
        reduced = _reduced(flow, below, row, "sum")
        made = flow.newest_producer(above.tensor, row)
        is_exp = made is not None and plain_name(flow.log.calls[made].function) == "exp"
        if made is None or reduced is None or not is_exp or reduced[0].tensor != above.tensor:
            return None
        return SoftmaxByHand(reduced[1], flow.log.calls[made].inputs[0], made)
    if name != "exp" or len(call.live_inputs) != 1:
        return None
    made = flow.newest_producer(call.inputs[0].tensor, row)
    minus = None if made is None else flow.log.calls[made]
    if made is None or minus is None or plain_name(minus.function) != "sub" or len(minus.inputs) != _BOTH:
        return None
    reduced = _reduced(flow, minus.inputs[1], made, "logsumexp")
    if reduced is None or reduced[0].tensor != minus.inputs[0].tensor:
        return None
    before = flow.newest_producer(minus.inputs[0].tensor, made)
    maker = None if before is None else flow.log.calls[before]
    if before is not None and maker is not None and plain_name(maker.function) == "sub" and len(maker.inputs) == _BOTH:
        return None if _reduced(flow, maker.inputs[1], before, "logsumexp") else _result(reduced, minus, made)
    return _result(reduced, minus, made)


def _result(reduced: tuple[TensorUse, int], minus: Call, row: int) -> SoftmaxByHand:
    return SoftmaxByHand(reduced[1], minus.inputs[0], row)


def _reduced(flow: Dataflow, use: TensorUse, before: int, name: str) -> tuple[TensorUse, int] | None:
    """What was reduced so over one axis to make a tensor, with the axis."""
    for _, call in flow.makers(use.tensor, before, _MAX_SHAPES):
        if plain_name(call.function) == name:
            axis = axis_of(call, len(shape_of(flow, call.inputs[0].tensor)))
            return None if axis is None else (call.inputs[0], axis)
        if plain_name(call.function) not in _SHAPES:
            return None
    return None
