"""The calls that a loss is made of as a sum: additions, factors that are numbers, averages, and changes of shape."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

_SUMS = frozenset({"add", "sub"})
_SCALES = frozenset({"mul", "div", "neg"})
_KEEPS = frozenset({
    "sum", "mean", "view", "reshape", "squeeze", "unsqueeze", "flatten", "to", "float", "double", "clone", "nansum",
    "permute", "transpose", "contiguous", "stack", "cat", "hstack", "concat",
})  # fmt: skip
_MAX_TERMS = 200


def linear_rows(flow: Dataflow, backward: int, root: int) -> Iterator[int]:
    """The calls from which the loss depends on their inputs linearly; for the sign of one number, up to the sign."""
    waiting, seen = [(root, backward)], set[int]()
    while waiting and len(seen) < _MAX_TERMS:
        tensor, before = waiting.pop()
        row = flow.newest_producer(tensor, before)
        if row is None or row in seen:
            continue
        seen.add(row)
        call = flow.log.calls[row]
        if _is_linear(flow, call):
            yield row
            waiting += [(use.tensor, row) for use in call.live_inputs]


def _is_linear(flow: Dataflow, call: Call) -> bool:
    name = plain_name(call.function)
    if call.kind != "operation" or not call.live_inputs:
        return False
    is_of_number = shape_of(flow, call.inputs[0].tensor) == ()
    is_factor = len(call.inputs) == 1 or is_of_number
    return (
        name in _SUMS
        or name in _KEEPS
        or (name in _SCALES and is_factor and len(call.live_inputs) == 1 and call.live_inputs[0].place == "0")
        or (name == "abs" and is_of_number)
    )
