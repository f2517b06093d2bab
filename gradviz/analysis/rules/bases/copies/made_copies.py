"""Calls that make copies of samples."""

from __future__ import annotations

from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.copies.axes_of_copies import Axes, Axis, copied, rows
from gradviz.analysis.rules.bases.copies.parts_of_copies import parts_of
from gradviz.graph.call_log import Call, TensorUse

BROADCAST = frozenset({"add", "mul", "sub", "addcmul"})
"""They copy the smaller of two tensors: samples of a distribution are made so."""
LAY_OUT = frozenset({"repeat", "tile", "expand", "expand_as", "broadcast_to", "repeat_interleave"})
COUNT_OFF = frozenset({"remainder", "fmod", "mod", "floor_divide"})
"""They make the numbers of copied samples of all numbers in order: ``arange(n * g) % n``, ``arange(n * g) // g``."""
VIEWS = frozenset({"view", "reshape", "flatten"})
"""They join an axis of samples and one of two copies, as a data set returns them, to rows."""
_MATRIX = 2
_PAIR = 2


def laid_out(flow: Dataflow, row: int, call: Call, name: str, result: Shape) -> Axes | None:
    """The axes of copies that a call makes of samples; None if it makes none, or copies of one number."""
    if name in VIEWS:
        axis = _joined_pairs(flow, row, call, result)
        return None if axis is None else (axis, *(None for _ in result[1:]))
    if name in COUNT_OFF:
        axis = _counted_off(flow, row, call, name, result)
        return None if axis is None else (axis,)
    if not call.inputs or (name not in LAY_OUT and (name not in BROADCAST or len(result) <= _MATRIX)):
        return None
    given = call.inputs[0] if name in LAY_OUT else _smaller(flow, call, result)
    if given is None or _is_one_number(flow, given, row):
        return None
    before = shape_of(flow, given.tensor)
    if name == "repeat_interleave":
        return parts_of(flow, row, call, name, (None,) * len(before))[0]
    return copied(before, result, row)


def _counted_off(flow: Dataflow, row: int, call: Call, name: str, result: Shape) -> Axis | None:
    made = flow.newest_producer(call.inputs[0].tensor, row) if len(call.inputs) == len(result) == 1 else None
    by = call.scalars.get("1")
    if made is None or plain_name(flow.log.calls[made].function) != "arange" or type(by) is not int or by < 1:
        return None
    values = flow.values(call.inputs[0].tensor, row)
    if result[0] % by or values is None or (values.minimum, values.maximum) != (0, result[0] - 1):
        return None
    if name.startswith("floor"):
        return rows(by, result[0] // by, row, "interleaved")
    return rows(result[0] // by, by, row, "tiled")


def _joined_pairs(flow: Dataflow, row: int, call: Call, result: Shape) -> Axis | None:
    """The rows that come of data with two vectors, or two pictures, for each sample: ``(n, 2, ...)``."""
    given = call.inputs[0]
    before = shape_of(flow, given.tensor)
    is_of_data = not given.requires_grad and flow.log.tensors[given.tensor].facts.dtype.startswith(("float", "bfloat"))
    if not is_of_data or len(before) <= _MATRIX or before[1] != _PAIR or result != (_PAIR * before[0], *before[2:]):
        return None
    return rows(_PAIR, before[0], row, "interleaved")


def _is_one_number(flow: Dataflow, use: TensorUse, row: int) -> bool:
    values = flow.values_of(use, row)
    return values is not None and values.minimum == values.maximum


def _smaller(flow: Dataflow, call: Call, result: Shape) -> TensorUse | None:
    """The only input that is broadcast, if it is no parameter."""
    smaller = [use for use in call.inputs if shape_of(flow, use.tensor) not in ((), result)]
    is_one = len(smaller) == 1 and flow.log.tensors[smaller[0].tensor].role == "tensor"
    return smaller[0] if is_one else None
