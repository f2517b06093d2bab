"""Calls that are made of straight lines: activations such as relu, and layers, which have no second derivative."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

_COMPARES = frozenset({"gt", "ge", "lt", "le", "sign", "heaviside", "greater", "less"})
_STRAIGHT = frozenset({
    "relu", "leaky_relu", "prelu", "hardtanh", "relu6", "rrelu", "threshold", "max_pool1d", "max_pool2d", "max_pool3d",
    "clamp", "clamp_min", "clip", "hardshrink", "softshrink", "abs", "maximum", "minimum", "where", "fmax", "fmin",
})  # fmt: skip
_OF_LAYERS = _STRAIGHT | _COMPARES | {
    "linear", "matmul", "mm", "addmm", "bmm", "mv", "conv1d", "conv2d", "conv3d", "add", "sub", "neg", "cat", "stack",
    "view", "reshape", "squeeze", "unsqueeze", "flatten", "getitem", "sum", "mean", "transpose", "permute", "t", "T",
    "requires_grad_", "requires_grad", "expand", "contiguous", "to", "float", "double", "clone", "ones_like", "unbind",
    "split", "chunk", "select", "narrow", "repeat", "dropout", "view_as", "movedim", "unflatten", "alias",
}  # fmt: skip
_SCALES = frozenset({"mul", "div"})
_NEAR = 3


def is_straight(flow: Dataflow, row: int) -> bool:
    """Whether a call is an activation made of straight lines: also ``z * (z > 0)``."""
    call = flow.log.calls[row]
    if plain_name(call.function) != "mul":
        return plain_name(call.function) in _STRAIGHT
    makers = (flow.newest_producer(use.tensor, row) for use in call.inputs if not use.requires_grad)
    return any(made is not None and _passes_comparison(flow, made) for made in makers)


def _passes_comparison(flow: Dataflow, row: int) -> bool:
    """Whether a call returns the result of a comparison, perhaps as numbers."""
    for _ in range(_NEAR):
        call = flow.log.calls[row]
        if plain_name(call.function) in _COMPARES:
            return True
        made = flow.newest_producer(call.inputs[0].tensor, row) if call.inputs else None
        if plain_name(call.function) not in ("float", "to", "type_as", "double") or made is None:
            return False
        row = made
    return False


def is_of_layers(call: Call) -> bool:
    """Whether a call is made of straight lines, or has nothing to do with the gradient."""
    name = plain_name(call.function)
    return name in _OF_LAYERS or not call.live_inputs or (name in _SCALES and len(call.live_inputs) == 1)
