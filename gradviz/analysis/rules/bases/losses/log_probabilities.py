"""Logarithms of probabilities, and samples that were drawn, behind what only arranges them."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

_ARRANGE = frozenset({
    "clamp", "view", "reshape", "squeeze", "unsqueeze", "float", "to", "flatten", "contiguous", "add", "getitem",
    "broadcast_tensors", "expand", "log", "log_softmax", "softmax",
})  # fmt: skip
_MOST_MAKERS = 8
_MOST_ARRANGED = 30
DRAWS = frozenset({"multinomial", "normal", "bernoulli"})
"""Calls that draw samples with the probabilities, or the mean and the scale, that they get."""
_BOTH = 2


def kind_of(flow: Dataflow, tensor: int, before: int) -> str:
    """``log`` of a probability, ``probability``, or an empty string."""
    for row, call in makers_of_values(flow, tensor, before, _MOST_MAKERS):
        name = plain_name(call.function)
        if name in ("log_softmax", "log"):
            return "log"
        if name in ("softmax", "exp", "sigmoid"):
            return "probability"
        if name == "sub" and len(call.live_inputs) == _BOTH:
            made = flow.newest_producer(call.inputs[1].tensor, row)
            return "log" if made is not None and plain_name(flow.log.calls[made].function) == "logsumexp" else ""
        if name == "div" and len(call.live_inputs) == _BOTH:  # probabilities that are divided by their sum
            return "probability"
        if name not in _ARRANGE:
            return ""
    return ""


def makers_of_values(flow: Dataflow, tensor: int, before: int, at_most: int) -> Iterator[tuple[int, Call]]:
    """The newest call that made a tensor, then the one that made what it rearranged, and so on."""
    for _ in range(at_most):
        row = flow.newest_producer(tensor, before)
        if row is None:
            return
        call, before = flow.log.calls[row], row
        yield row, call
        if not call.inputs:
            return
        if all(use.tensor != tensor for use in call.inputs):  # broadcast_tensors() returns what has the shape already
            is_live = any(use.tensor == tensor and use.requires_grad for use in call.outputs)
            tensor = next((use for use in call.inputs if use.requires_grad is is_live), call.inputs[0]).tensor


def is_drawn(flow: Dataflow, tensor: int, before: int) -> bool:
    return any(
        plain_name(call.function) in DRAWS and call.inputs
        for _, call in makers_of_values(flow, tensor, before, _MOST_ARRANGED)
    )


def is_log_probability(flow: Dataflow, tensor: int, before: int) -> bool:
    """Whether a tensor has logarithms of probabilities that sum to one: not of what those leave over."""
    for row, call in makers_of_values(flow, tensor, before, _MOST_MAKERS):
        name = plain_name(call.function)
        if name == "log":
            return kind_of(flow, call.inputs[0].tensor, row) == "probability"
        if name == "sub" and call.inputs:
            return kind_of(flow, call.outputs[0].tensor, row + 1) == "log"
        if name not in _ARRANGE or name in ("log_softmax", "softmax"):
            return name == "log_softmax"
    return False
