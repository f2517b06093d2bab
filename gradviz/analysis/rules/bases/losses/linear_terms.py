"""The calls that a loss is made of as a sum: additions, factors that are numbers, averages, and changes of shape."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name, single_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.products import product_of
from gradviz.graph.call_log import Call

_SUMS = frozenset({"add", "sub"})
_SCALES = frozenset({"mul", "div", "neg"})
_KEEPS = frozenset({
    "sum", "mean", "view", "reshape", "squeeze", "unsqueeze", "flatten", "to", "float", "double", "clone", "nansum",
    "permute", "transpose", "contiguous", "stack", "cat", "hstack", "concat",
    "getitem", "select", "narrow", "unbind", "split", "chunk",
})  # fmt: skip
_PUTS_TOGETHER = frozenset({"stack", "cat", "hstack", "concat"})
_PRODUCTS = frozenset({"mul", "dot", "vdot", "inner", "matmul", "mv", "einsum", "tensordot"})
_MAX_TERMS = 200


def linear_rows(
    flow: Dataflow, backward: int, root: int, *, with_weights: bool = False, with_squares: bool = False
) -> Iterator[int]:
    """The calls from which the loss depends on their inputs linearly; for the sign of one number, up to the sign.

    Args:
        with_weights: also through products with weights that are data, and nowhere below 0.
        with_squares: also through the square of one number.
    """
    waiting, seen = [(root, backward)], set[int]()
    while waiting and len(seen) < _MAX_TERMS:
        tensor, before = waiting.pop()
        row = flow.newest_producer(tensor, before)
        if row is None or row in seen:
            continue
        seen.add(row)
        call = flow.log.calls[row]
        is_passed = with_squares and is_square_of_number(flow, call)
        if is_passed or _is_linear(flow, row, call) or (with_weights and _is_weighed(flow, row, call)):
            yield row
            waiting += [(use.tensor, row) for use in call.live_inputs]


def is_square_of_number(flow: Dataflow, call: Call) -> bool:
    """Whether a call squares a single number, as the mean of differences."""
    is_square = plain_name(call.function) in ("square", "pow") and len(call.live_inputs) == len(call.inputs) == 1
    return is_square and shape_of(flow, call.inputs[0].tensor) == () and call.scalars.get("1", 2) in (2, 2.0)


def _is_linear(flow: Dataflow, row: int, call: Call) -> bool:
    name = single_name(call)
    if call.kind != "operation" or not call.live_inputs:
        return False
    is_of_number = shape_of(flow, call.inputs[0].tensor) == ()
    is_factor = len(call.inputs) == 1 or is_of_number
    return (
        name in _SUMS
        or name in _KEEPS
        or (name in _SCALES and is_factor and len(call.live_inputs) == 1 and call.live_inputs[0].place == "0")
        or (name == "abs" and is_of_number)
        or (name in _PRODUCTS and len(call.live_inputs) == 1 < len(call.inputs) and _are_terms(flow, row, call))
    )


def _is_weighed(flow: Dataflow, row: int, call: Call) -> bool:
    name = plain_name(call.function)
    if name in _SCALES and len(call.live_inputs) == 1 and call.live_inputs[0] is call.inputs[0]:
        weights = [use for use in call.inputs if not use.requires_grad]
    else:
        pair = product_of(call)
        weights = [use for use in pair or () if not use.requires_grad]
    if len(call.live_inputs) != 1 or len(weights) != 1:
        return False
    values = flow.values_of(weights[0], row)
    is_data = flow.log.tensors[weights[0].tensor].role == "tensor"
    return is_data and values is not None and values.minimum is not None and values.minimum >= 0


def _are_terms(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a product is one of weights and single numbers that were put together: the terms of a loss."""
    made = flow.newest_producer(call.live_inputs[0].tensor, row)
    maker = None if made is None else flow.log.calls[made]
    is_put_together = maker is not None and plain_name(maker.function) in _PUTS_TOGETHER
    return (
        maker is not None and is_put_together and all(shape_of(flow, use.tensor) in ((), (1,)) for use in maker.inputs)
    )
