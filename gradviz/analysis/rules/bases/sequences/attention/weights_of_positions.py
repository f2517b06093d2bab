"""Sums over the positions of sequences that are weighed with a softmax over all of these, without any mask."""

from __future__ import annotations

from math import prod

from gradviz.analysis.dataflow.axes import axis_of, summed_by_einsum
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.analysis.rules.bases.sequences.attention.normalized_scores import normalized_axis
from gradviz.graph.call_log import Call, TensorUse

_PRODUCTS = frozenset({"matmul", "bmm", "mm", "baddbmm"})
_ATTENTION = "scaled_dot_product_attention"
_MAKE_SCORES = frozenset({
    *_PRODUCTS, "einsum", "linear", "sum", "mean", "vecdot", "inner", "tensordot", "mv", "addmm",
})  # fmt: skip
_KEEP_WEIGHTS = SHAPE_ONLY | {"dropout", "detach"}
_KEEP_SCORES = SHAPE_ONLY | {"exp", "sub", "add", "mul", "div", "neg", "tanh", "clamp", "dropout", "relu", "leaky_relu"}
_BOTH = 2
_AXES = 3
_MAX_CALLS = 10


def unmasked_weights(flow: Dataflow, row: int, tensor: int, axis: int) -> int | None:
    """The softmax over all positions with which a call weighs a tensor while it sums over them; None for other calls.

    Args:
        axis: that of the positions of the tensor, which has three.
    """
    call = flow.log.calls[row]
    name = plain_name(call.function)
    if name == _ATTENTION:
        return row if _attends_to_all(flow, call, tensor, axis) else None
    before = row
    if name == "sum" and len(call.inputs) == 1 and _axis_of_sum(call) == axis:
        made = flow.newest_producer(tensor, row)
        if made is None or plain_name(flow.log.calls[made].function) != "mul":
            return None
        before = made
    elif not _sums_over(call, name, tensor, axis):
        return None
    sides = flow.log.calls[before].inputs
    length = shape_of(flow, tensor)[axis]
    for use in sides if len(sides) == _BOTH and all(each.requires_grad for each in sides) else ():
        softmax = _softmax_above(flow, use, before, length) if use.tensor != tensor else None
        if softmax is not None and not _has_mask(flow, softmax):
            return softmax
    return None


def _axis_of_sum(call: Call) -> int | None:
    places = [place for place in call.scalars if place in ("1[0]", "dim[0]")]
    is_single = len(places) == 1 and f"{places[0][:-3]}[1]" not in call.scalars
    return axis_of(call, _AXES, places[0] if is_single else "1")


def _sums_over(call: Call, name: str, tensor: int, axis: int) -> bool:
    """Whether a product of two tensors sums over an axis of one of them."""
    use = next(each for each in call.inputs if each.tensor == tensor)
    if name == "einsum":
        return axis in (summed_by_einsum(call, use, _AXES) or ())
    return name in _PRODUCTS and axis == (_AXES - 1 if use is call.inputs[0] else _AXES - _BOTH)


def _softmax_above(flow: Dataflow, use: TensorUse, row: int, length: int) -> int | None:
    """The softmax over the positions that made weights, which only got another shape since."""
    count = prod(shape_of(flow, use.tensor))
    for made, call in flow.makers(use.tensor, row, _MAX_CALLS):
        axis = normalized_axis(flow, made, call)
        if axis is not None and plain_name(call.function) not in ("log_softmax", "normalize", "sub"):
            shape = shape_of(flow, call.outputs[0].tensor)
            # Of as many positions as they weigh: those of queries, where each one makes a result of its own.
            others = [size for at, size in enumerate(shape) if at not in (axis, 0 if axis else 1)]
            return made if shape[axis] == length and length not in others else None
        is_kept = plain_name(call.function) in _KEEP_WEIGHTS and len(call.inputs) == 1
        if not is_kept or prod(shape_of(flow, call.inputs[0].tensor)) != count:
            return None
    return None


def _has_mask(flow: Dataflow, softmax: int) -> bool:
    """Whether anything without a gradient, such as a mask, goes into the scores of a softmax behind what made them."""
    for _, call in flow.makers(flow.log.calls[softmax].inputs[0].tensor, softmax, _MAX_CALLS):
        if any(not use.requires_grad and shape_of(flow, use.tensor) not in ((), (1,)) for use in call.inputs):
            return True
        name = plain_name(call.function)
        has_parameter = any(flow.log.tensors[use.tensor].role == "parameter" for use in call.inputs)
        if name in _MAKE_SCORES or has_parameter:
            return False
        if name not in _KEEP_SCORES:
            return True  # It is not known what else may hide positions.
    return True


def _attends_to_all(flow: Dataflow, call: Call, tensor: int, axis: int) -> bool:
    """Whether the fused function takes all positions of a tensor as its values, for other numbers of queries."""
    value = next((use for use in call.inputs if use.place in ("2", "value")), None)
    has_mask = any(use.place in ("3", "attn_mask") for use in call.inputs)
    if value is None or value.tensor != tensor or axis != _AXES - _BOTH or has_mask or _is_causal(call):
        return False
    queries = shape_of(flow, call.inputs[0].tensor)
    return len(queries) == _AXES and queries[-2] != shape_of(flow, tensor)[axis]


def _is_causal(call: Call) -> bool:
    return call.scalars.get("is_causal", call.scalars.get("5")) is True
