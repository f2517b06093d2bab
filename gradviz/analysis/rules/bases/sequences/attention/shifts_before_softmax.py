"""Trained offsets that have no influence, because they are the same for all members of a softmax behind them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from msgspec import Struct

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call


class Cancelled(Struct, frozen=True):
    """A parameter whose only use is to be added to what a softmax takes."""

    parameter: int
    added: int
    """The last call that adds it."""
    softmax: int
    """The call that takes it away again."""


def cancelled_offsets(histories: ParameterHistories) -> Iterator[Cancelled]:
    """The trained tensors of several numbers of which this is true wherever they are used.

    A single number that is added to all scores is left out: layers have such biases, and they do no harm.
    """
    for parameter in sorted(histories.trained):
        if prod(shape_of(histories.flow, parameter)) > 1:
            found = _sums_with(histories.flow, parameter)
            if found is not None and len(found) >= _MIN_TIMES:
                yield Cancelled(parameter, *found[-1])


_MIN_TIMES = 2
_MAX_USES = 40
_MAX_FOLLOWED = 80
_MAX_STEPS = 8
_FAR_BELOW = -1e4
_OF_OFFSET = frozenset({
    "view", "reshape", "unsqueeze", "squeeze", "to", "float", "double", "clone", "mul", "div", "expand", "transpose",
    "permute", "getitem", "index_select", "embedding", "neg", "narrow", "contiguous", "gather", "flatten", "unflatten",
})  # fmt: skip
"""What is made of an offset before it is added: other shapes, rows of a table, a factor that is a number."""
_SUMS = frozenset({"add", "sub"})
_KEEPS = frozenset({"to", "float", "double", "clone", "contiguous", "mul", "div"})
_SOFTMAXES = frozenset({"softmax", "log_softmax"})
_CLASSES = frozenset({"cross_entropy"})


def _sums_with(flow: Dataflow, parameter: int) -> list[tuple[int, int]] | None:
    """Each call that adds the offset, with the softmax that cancels it; None if any use may be of another kind."""
    waiting, seen, found = [(parameter, -1)], {parameter}, list[tuple[int, int]]()
    while waiting and len(seen) < _MAX_FOLLOWED:
        tensor, after = waiting.pop(0)
        for row in flow.users(tensor, after)[:_MAX_USES]:
            call = flow.log.calls[row]
            is_operation = call.kind in ("operation", "custom", "compiled")
            if not is_operation or not any(use.has_grad_fn for use in call.outputs):
                continue
            name, result = plain_name(call.function), call.outputs[0].tensor
            others = [use for use in call.inputs if use.tensor != tensor]
            if name in _OF_OFFSET and not any(use.requires_grad for use in others) and len(call.outputs) == 1:
                if result not in seen:
                    seen.add(result)
                    waiting.append((result, row))
                continue
            end = _softmax_over(flow, row, _axes_of_one(flow, tensor, result)) if name in _SUMS and others else None
            if end is None or _is_bias(flow, row, tensor, others[0].tensor):
                return None
            found.append((row, end))
    return found


def _is_bias(flow: Dataflow, row: int, offset: int, other: int) -> bool:
    """Whether it is the bias of a layer by hand, ``x @ weight + bias``: such a one does no harm."""
    made = flow.newest_producer(other, row)
    product = None if made is None else flow.log.calls[made]
    if product is None or plain_name(product.function) not in _PRODUCTS or len(shape_of(flow, offset)) != 1:
        return False
    return any(use.is_live_leaf for use in product.inputs)


_PRODUCTS = frozenset({"matmul", "mm", "bmm", "einsum", "linear", "tensordot"})


def _axes_of_one(flow: Dataflow, offset: int, result: int) -> frozenset[int]:
    """The axes of a sum along which the offset is a single number, and the sum has several, counted from the end."""
    small, large = shape_of(flow, offset), shape_of(flow, result)
    return frozenset(
        axis for axis in range(-len(large), 0) if large[axis] > 1 and (-axis > len(small) or small[axis] == 1)
    )


def _softmax_over(flow: Dataflow, row: int, axes: frozenset[int]) -> int | None:
    """The softmax along one of these axes of what a call made, if nothing else with a gradient is made of that."""
    tensor = flow.log.calls[row].outputs[0].tensor
    rank = len(shape_of(flow, tensor))
    for _ in range(_MAX_STEPS):
        users = [(user, flow.log.calls[user]) for user in flow.users(tensor, row)]
        live = [(user, call) for user, call in users if any(use.has_grad_fn for use in call.outputs)]
        if len(live) != 1 or len(shape_of(flow, tensor)) != rank:
            return None
        row, call = live[0]
        name = plain_name(call.function)
        if name in _SOFTMAXES or name in _CLASSES:
            axis = axis_of(call, rank) if name in _SOFTMAXES else 1
            is_classes = name in _SOFTMAXES or call.inputs[0].tensor == tensor
            return row if axis is not None and axis - rank in axes and is_classes else None
        if not _keeps_offset(flow, call, name, tensor) or len(call.outputs) != 1:
            return None
        tensor = call.outputs[0].tensor
    return None


def _keeps_offset(flow: Dataflow, call: Call, name: str, tensor: int) -> bool:
    """Whether what a call returns still has the offset, times a number, wherever it is not hidden."""
    if name == "masked_fill":
        value = call.scalars.get("2", call.scalars.get("value"))
        return type(value) in (int, float) and float(value) <= _FAR_BELOW  # type: ignore[arg-type]
    if name in _SUMS:
        return shape_of(flow, call.outputs[0].tensor) == shape_of(flow, tensor)
    return name in _KEEPS and len(call.inputs) == 1
