"""Which softmax made the values that another softmax receives."""

from __future__ import annotations

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.sequences.attention.normalized_scores import axis_of_probabilities
from gradviz.graph.call_log import Call


class SoftmaxAgain:
    """Finds the softmax whose result another softmax received, through calls that keep the values of its axis."""

    def __init__(self, flow: Dataflow) -> None:
        self._flow = flow

    def first_of(self, row: int, call: Call) -> int | None:
        """The first softmax, over the same axis."""
        axis = _axis_from_the_end(self._flow, call)
        return None if axis is None else self._maker(call.inputs[0].tensor, row, axis)

    def _maker(self, tensor: int, before: int, axis: int) -> int | None:
        """The softmax over this axis that made a tensor, or all parts of it; the first of them."""
        flow = self._flow
        size = _size(flow, tensor, axis)
        waiting, seen, found = [(tensor, before)], set[int](), set[int]()
        while waiting:
            given, until = waiting.pop()
            made = flow.producers(given, until)
            if not made or _size(flow, given, axis) != size:
                return None
            row = made[-1]
            if row in seen:
                continue
            seen.add(row)
            call = flow.log.calls[row]
            own = axis_of_probabilities(flow, row, call)
            if own is not None and own - len(shape_of(flow, given)) == axis:
                found.add(row)
            elif len(seen) > _MAX_PARTS or not _keeps_values(call):
                return None
            else:
                name = plain_name(call.function)
                parts = call.inputs if name in _JOINS else call.inputs[-1:] if name in _WRITES else call.inputs[:1]
                waiting += [(use.tensor, row) for use in parts]
        return min(found, default=None)


_JOINS = frozenset({"cat", "concat", "stack"})
_WRITES = frozenset({"setitem", "copy"})
_KEEPS_VALUES = frozenset({
    "detach", "data", "to", "cpu", "cuda", "float", "half", "bfloat16", "double", "type_as", "clone", "contiguous",
    "view", "reshape", "flatten", "squeeze", "unsqueeze", "expand", "repeat_interleave", "getitem", "index_select",
    "select", "narrow", "split", "chunk", "unbind", "pin_memory", "requires_grad", *_JOINS, *_WRITES,
})  # fmt: skip
_MAX_PARTS = 400


def _keeps_values(call: Call) -> bool:
    """Whether the result has the values of the input, divided by a number at most."""
    name = plain_name(call.function)
    if name in _WRITES:
        return len(call.inputs) > 1
    return bool(call.inputs) and (name in _KEEPS_VALUES or (name == "div" and len(call.inputs) == 1))


def _axis_from_the_end(flow: Dataflow, call: Call) -> int | None:
    """The axis of a softmax, as -1 for the last one."""
    rank = len(shape_of(flow, call.outputs[0].tensor)) if call.outputs and call.inputs else 0
    axis = axis_of(call, rank)
    return None if axis is None else axis - rank


def _size(flow: Dataflow, tensor: int, axis: int) -> int | None:
    shape = shape_of(flow, tensor)
    return shape[axis] if len(shape) >= -axis else None
