"""Where two tensors share their memory, because one was taken from the other without a copy."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

_SAME_MEMORY = frozenset({
    "detach", "data", "alias", "view", "view_as", "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "permute",
    "contiguous", "float", "expand", "expand_as", "T", "t", "swapaxes", "unflatten",
})  # fmt: skip
"""They return the memory that they were given; some do so only where nothing has to be rearranged."""
_MAX_STEPS = 12
_SIDES = 2


def taken_without_copy(flow: Dataflow, row: int) -> int | None:
    """The call that took one of the two inputs of a call from the other; the call itself where they are one tensor.

    Of two that were both taken from a third tensor, the one that took the second input. None if they do not share
    their memory as a whole.
    """
    call = flow.log.calls[row]
    if len(call.inputs) != _SIDES:
        return None
    one, other = (dict(_same_memory(flow, use.tensor, row)) for use in call.inputs)
    common = next((tensor for tensor in one if tensor in other), None)
    if common is None:
        return None
    return other[common] if other[common] < row else one[common]


def _same_memory(flow: Dataflow, tensor: int, before: int) -> Iterator[tuple[int, int]]:
    """The tensor and those from which it was taken without a copy, each with the call that took it."""
    yield tensor, before
    for _ in range(_MAX_STEPS):
        # What changes the memory of a tensor in place makes it anew, and is no maker of another name.
        makers = [row for row in flow.producers(tensor, before) if _keeps_memory(flow.log.calls[row])]
        if not makers:
            return
        before = makers[-1]
        tensor = flow.log.calls[before].inputs[0].tensor
        yield tensor, before


def _keeps_memory(call: Call) -> bool:
    return plain_name(call.function) in _SAME_MEMORY and len(call.inputs) == 1
