"""Losses that are a plain mean, sum or difference of what a model computes, so that nothing says what it should be.

Such a loss trains what the model is given: an actor, through its critic. The model itself can only make it smaller
without end, so it is trained with another one.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call, TensorUse

_KEEP = frozenset({
    "mean", "sum", "neg", "view", "reshape", "flatten", "squeeze", "unsqueeze", "getitem", "float", "double", "to", "t",
    "T", "transpose", "permute", "chunk", "split", "unbind", "contiguous", "clone", "alias",
})  # fmt: skip
_JOIN = frozenset({"add", "sub", "rsub", "min", "minimum", "amin", "stack", "cat", "concat"})
_SCALE = frozenset({"mul", "div"})
_MAX_CALLS = 40


def trains_through(histories: ParameterHistories, backward: int, model: frozenset[int], givers: frozenset[int]) -> bool:
    """Whether a term of a loss is a plain mean of what a model computes of results of others.

    Args:
        model: the parameters of the model.
        givers: those of the others.
    """
    calls, flow = histories.log.calls, histories.flow
    since = flow.step_before(backward)
    waiting = [(use.tensor, backward) for use in calls[backward].roots]
    seen = set[int]()
    while waiting and len(seen) < _MAX_CALLS:
        tensor, before = waiting.pop()
        row = flow.newest_producer(tensor, before)
        if row is None or row < since or row in seen:
            continue
        seen.add(row)
        call = calls[row]
        if any(use.tensor in model and use.requires_grad for use in call.inputs):
            given = [use.tensor for use in call.inputs if use.has_grad_fn]
            if not givers.isdisjoint(histories.live_leaves(given, row)[0]):
                return True
            continue
        waiting += [(use.tensor, row) for use in _passed(call)]
    return False


def _passed(call: Call) -> Iterator[TensorUse]:
    """The inputs of which a call is a straight line."""
    name = plain_name(call.function).strip("_")
    live = [use for use in call.inputs if use.has_grad_fn]
    is_scaled = name in _SCALE and len(live) == 1 and call.inputs[0].tensor == live[0].tensor
    if name in _KEEP or name in _JOIN or is_scaled or (name == "mul" and len(live) == 1):
        yield from live
