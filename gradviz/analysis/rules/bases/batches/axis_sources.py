"""Of which tensors, and which of their axes, an axis of a tensor is: samples stay samples through layers and sums."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from gradviz.analysis.dataflow.axes import REDUCTIONS, axes_of, axis_of
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.analysis.dataflow.layer_calls import RECURRENT_LAYERS
from gradviz.analysis.rules.bases.mixed_channels import order_of
from gradviz.graph.call_log import Call

Label = tuple[int, int]
"""A tensor and one of its axes."""

MEETS = frozenset({"add", "sub", "mul", "div", "where", "masked_fill", "mse_loss", "l1_loss", "smooth_l1_loss"})
"""They combine tensors element by element, and broadcast."""
_BY_ELEMENT = MEETS | {
    "neg", "exp", "log", "log1p", "sqrt", "rsqrt", "pow", "square", "abs", "reciprocal", "clamp", "clip", "relu",
    "gelu", "silu", "elu", "tanh", "sigmoid", "leaky_relu", "softplus", "dropout", "softmax", "log_softmax",
    "normalize", "to", "float", "half", "double", "bfloat16", "long", "bool", "type", "type_as", "detach",
    "clone", "contiguous", "eq", "ne", "lt", "le", "gt", "ge", "logical_not", "invert", "expand", "expand_as",
    "cumsum", "cumprod", "sort", "argsort", "maximum", "minimum", "nan_to_num", "requires_grad", "logical_and",
    "logical_or", "and", "or", "flip", "roll", "repeat", "tile",
}  # fmt: skip
_OF_FIRST = frozenset({"layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm"})
_RESHAPES = frozenset({"view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "_unsafe_view", "view_as"})
_SWAPS = frozenset({"transpose", "swapaxes", "swapdims", "permute"})
_PRODUCTS = frozenset({"matmul", "bmm", "mm"})
_MOST_FOLLOWED = 500
_TABLE = 2


def sources_of_axis(flow: Dataflow, tensor: int, axis: int, row: int) -> frozenset[Label] | None:
    """The axis itself, and those that it comes from unchanged, before the call `row`; none of parameters.

    None where there are too many to follow all of them.
    """
    seen = {(tensor, axis)}
    waiting = [(tensor, axis, row)]
    while waiting:
        if len(seen) > _MOST_FOLLOWED:
            return None
        given, at, before = waiting.pop()
        made = flow.producers(given, before)
        if not made:
            continue
        call = flow.log.calls[made[-1]]
        if plain_name(call.function) == "setitem" and len(made) > 1:  # it keeps the axes of what it writes into
            waiting.append((given, at, made[0] + 1))
            continue
        for above, place in _above(flow, call, given, at) if call.kind == "operation" else ():
            is_new = (above, place) not in seen and flow.log.tensors[above].role != "parameter"
            if is_new and shape_of(flow, above)[place] == shape_of(flow, given)[at]:
                seen.add((above, place))
                waiting.append((above, place, made[-1]))
    return frozenset(seen)


def _above(flow: Dataflow, call: Call, result: int, axis: int) -> Iterator[Label]:
    """The axes of the inputs of a call that are one axis of its result; some of them may have another size."""
    if not call.inputs:
        return
    name, first, rank = plain_name(call.function), call.inputs[0].tensor, len(shape_of(flow, result))
    given, made = shape_of(flow, first), shape_of(flow, result)
    if name == "einsum":
        yield from _of_einsum(flow, call, axis)
    elif name in _BY_ELEMENT:
        for use in call.inputs:
            place = axis - rank + len(shape_of(flow, use.tensor))
            if place >= 0:
                yield use.tensor, place
    elif name in _OF_FIRST or name in ("chunk", "split", "narrow", "index_select"):
        yield from ((first, axis),) if len(given) == rank else ()
    elif name in REDUCTIONS:
        yield from ((first, place) for place in _kept(call, name, given, made)[axis : axis + 1])
    elif name in ("getitem", "select", "unbind"):
        yield from ((first, place) for place in _chosen(call, name, given, made)[axis : axis + 1] if place >= 0)
    elif name in _RESHAPES:
        same = (place for place, size in enumerate(given) if size == made[axis] > 1)
        yield from ((first, place) for place in same if prod(given[:place]) == prod(made[:axis]))
    elif name in _SWAPS:
        order = order_of(call, rank)
        yield from ((first, order[axis]),) if order is not None else ()
    elif name in ("T", "mT", "t") and rank >= _TABLE:
        yield first, axis if axis < rank - 2 else (rank - 1 if axis == rank - 2 else rank - 2)
    else:
        yield from _of_layer(flow, call, name, axis, rank)


def _of_layer(flow: Dataflow, call: Call, name: str, axis: int, rank: int) -> Iterator[Label]:
    first = call.inputs[0].tensor
    ranks = [len(shape_of(flow, use.tensor)) for use in call.inputs]
    if name in ("linear", "scaled_dot_product_attention", "embedding"):
        yield from ((first, axis),) if axis < min(rank - 1, ranks[0]) else ()
    elif name in RECURRENT_LAYERS:
        yield from ((first, axis),) if axis < rank - 1 == ranks[0] - 1 == _TABLE else ()
    elif name.startswith("conv") or "pool" in name or name in ("interpolate", "pad"):
        is_batch = name != "conv" and ranks[0] == rank and (len(ranks) == 1 or ranks[1] in (1, rank))
        yield from ((first, 0),) if is_batch and axis == 0 else ()
    elif name in _PRODUCTS and len(ranks) == _TABLE and rank >= _TABLE:
        second = call.inputs[1].tensor
        if axis < rank - 1 and ranks[0] == rank:
            yield first, axis
        if axis != rank - 2 and ranks[1] == rank:
            yield second, axis
    elif name in ("cat", "concat", "stack"):
        dim = _dim(call, rank)
        place = axis - (name == "stack" and axis > dim)
        yield from ((use.tensor, place) for use in call.inputs if axis != dim)


def _dim(call: Call, rank: int) -> int:
    dim = call.scalars.get("dim", call.scalars.get("1", 0))
    return dim % rank if type(dim) is int else 0


def _of_einsum(flow: Dataflow, call: Call, axis: int) -> Iterator[Label]:
    equation = equation_of(call)
    result = equation.result
    for use, letters in zip(call.inputs, equation.terms, strict=False):
        if axis < len(result) and len(letters) == len(shape_of(flow, use.tensor)) and result[axis] in letters:
            yield use.tensor, letters.index(result[axis])


def _kept(call: Call, name: str, given: Shape, made: Shape) -> list[int]:
    """By axis of a reduction's result: the axis of its input; empty where it is not known."""
    rank = len(given)
    if name in ("norm", "vector_norm"):
        named = [value for place, value in call.scalars.items() if place.partition("[")[0] in ("dim", "2")]
        gone = {value % rank for value in named if type(value) is int and rank}
    else:
        gone = set(axes_of(call, rank))
    if len(made) == rank:
        return list(range(rank))
    kept = [axis for axis in range(rank) if axis not in gone]
    return kept if tuple(given[axis] for axis in kept) == made else []


def _chosen(call: Call, name: str, given: Shape, made: Shape) -> list[int]:
    """By axis of what an index takes: the axis of what it is taken from, -1 for a new one; empty if not known."""
    rank, axes = len(given), list(range(len(given)))
    if len(call.inputs) > 1:
        return []  # what a tensor chooses may be anywhere
    if name != "getitem":
        gone = axis_of(call, rank) if {"1", "dim"} & set(call.scalars) else 0
        return [] if gone is None else [*axes[:gone], *axes[gone + 1 :]]
    if len(made) == rank:
        return axes if all(one >= other for one, other in zip(given, made, strict=True)) else []
    if len(made) > rank:
        new = next((at for at in range(rank + 1) if (*given[:at], 1, *given[at:]) == made), None)
        return [] if new is None else [*axes[:new], -1, *axes[new:]]
    numbers = [place for place, value in call.scalars.items() if type(value) is int and "." not in place]
    if len(numbers) != 1 or len(made) != rank - 1:
        return []
    at = 0 if numbers[0] == "1" else int(numbers[0].partition("[")[2].rstrip("]"))
    kept = [*axes[:at], *axes[at + 1 :]]
    return kept if all(given[axis] >= size for axis, size in zip(kept, made, strict=False)) else []
