"""Operations that send a gradient of zero: always, for some inputs, or because another operand is zero."""

from __future__ import annotations

from typing import Literal

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.graph.call_log import Call, ValueFacts
from gradviz.graph.model import Node
from gradviz.graph.query.operation_names import stem_of

ZeroCause = Literal["zero_gradient_op", "dead_relu", "saturation", "masked_out", "gradient_underflow"]

_FLAT = frozenset({
    "Round", "Floor", "Ceil", "Trunc", "Fix", "Sign", "Sgn", "Heaviside", "Bernoulli", "Poisson", "Normal", "Binomial",
})  # fmt: skip
"""Nodes whose derivative is zero wherever it is defined."""
_FLAT_NAMES = frozenset(stem.lower() for stem in _FLAT)
_RELUS = frozenset({
    "relu", "threshold", "relu6", "gelu", "silu", "mish", "hardswish", "elu", "selu", "celu", "prelu", "leaky_relu",
    "rrelu", "softplus",
})  # fmt: skip
_CLAMPS = frozenset({
    "clamp", "clip", "clamp_min", "clamp_max", "hardtanh", "hardsigmoid", "sigmoid", "tanh", "softsign", "erf", "atan",
    "softmax", "log_softmax", "logsigmoid", "exp", "minimum", "maximum", "hardshrink", "softshrink", "tanhshrink",
    "min", "max", "fmin", "fmax", "expit", "nan_to_num",
})  # fmt: skip
_CHOICES = frozenset({
    "where", "masked_fill", "setitem", "index_put", "masked_scatter", "index_fill", "masked_select", "zero", "fill",
    "copy", "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout",
})  # fmt: skip
_PRODUCTS = frozenset({
    "mul", "matmul", "linear", "mm", "bmm", "addmm", "baddbmm", "mv", "dot", "einsum", "inner", "outer", "conv1d",
    "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "bilinear", "lerp", "addcmul", "kron", "tensordot",
    "embedding", "layer_norm", "batch_norm", "group_norm", "sub", "add", "div", "vdot", "prod", "cross_entropy",
    "nll_loss", "pow", "square",
})  # fmt: skip


def is_flat(node: Node) -> bool:
    """Whether its derivative is zero wherever it is defined."""
    return stem_of(node.name) in _FLAT


def can_be_flat(call: Call) -> bool:
    """Whether the slope of a function is zero somewhere, or everywhere."""
    return plain_name(call.function) in _RELUS | _CLAMPS | _FLAT_NAMES


def is_choice(call: Call) -> bool:
    """Whether a function selects some inputs and sends nothing to the rest."""
    return plain_name(call.function) in _CHOICES


def is_product(node: Node, call: Call) -> bool:
    """Whether it sends its gradient times another operand: zero because of that operand, not because of a slope."""
    return not is_flat_as_called(node, call) and plain_name(call.function) in _CHOICES | _PRODUCTS


def cause_by_slope(node: Node, call: Call, values: ValueFacts | None) -> ZeroCause:
    """Why a node sends zero because of its slope at the inputs of its call."""
    return "zero_gradient_op" if is_flat_as_called(node, call) else cause_by_name(call, values)


def cause_by_name(call: Call, values: ValueFacts | None) -> ZeroCause:
    """Why a node sends zero because of its slope, judged by its function alone."""
    name = plain_name(call.function)
    if name in _RELUS:
        return "dead_relu"
    if name not in _CLAMPS:
        return "zero_gradient_op"
    lower = {call.scalars.get(argument) for argument in ("1", "min", "0")} - {None}
    upper = {call.scalars.get(argument) for argument in ("2", "max")} - {None}
    is_relu = name in ("clamp", "clip", "clamp_min") and lower == {0} and not upper
    below_zero = values is not None and values.maximum is not None and values.maximum <= 0
    return "dead_relu" if is_relu and below_zero else "saturation"


def is_flat_everywhere(function: str) -> bool:
    """Whether a function is constant between jumps, as ``round`` is."""
    return function in _FLAT_NAMES


def is_flat_as_called(node: Node, call: Call) -> bool:
    """Whether the slope is zero whatever the input is."""
    return is_flat(node) or _is_single_softmax(node) or _rounds(call) or _reads_nearest(call)


def _reads_nearest(call: Call) -> bool:
    """Whether it takes the nearest points of an image: the derivative by the grid is zero everywhere. That of the image
    is not."""
    is_grid_sample = plain_name(call.function) == "grid_sample" and call.scalars.get("mode") == "nearest"
    return is_grid_sample and not any(use.requires_grad for use in call.inputs[:1])


def _rounds(call: Call) -> bool:
    return "rounding_mode" in call.scalars


def _is_single_softmax(node: Node) -> bool:
    """Whether it is a softmax over one element, which is 1 whatever its input is."""
    if stem_of(node.name) not in ("Softmax", "LogSoftmax"):
        return False
    dim, output = node.attributes.get("dim"), node.output(0)
    if not isinstance(dim, int) or output is None or not output.shape:
        return output is not None and not output.shape
    # torch reports a negative dim as an unsigned 64-bit number
    signed = dim - 2**64 if dim >= 2**63 else dim
    rank = len(output.shape)
    return -rank <= signed < rank and output.shape[signed] == 1
