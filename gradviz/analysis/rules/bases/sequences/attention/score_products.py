"""Products of queries and keys, however they are spelled: what they multiply, and over how many elements they sum."""

from __future__ import annotations

from typing import NamedTuple

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.analysis.rules.bases.losses.signed_terms import number_of
from gradviz.graph.call_log import Call, TensorUse


class Product(NamedTuple):
    """A product of queries and keys."""

    sides: tuple[TensorUse, ...]
    length: int
    factor: float = 1.0
    """What the same call multiplies it with."""


_PRODUCTS = frozenset(
    {"matmul", "bmm", "einsum", "mm", "baddbmm", "addmm", "addbmm", "inner", "tensordot", "linear", "vecdot"}
)
_ADDS_TO = frozenset({"baddbmm", "addmm", "addbmm"})
"""They add the product of the other two to their first argument."""
_TWO = 2


def product_of(flow: Dataflow, row: int, call: Call) -> Product | None:
    """The product that a call makes; None if it makes none, or one with parameters."""
    name = plain_name(call.function)
    if name == "sum" and len(call.inputs) == 1:
        return _product_in_sum(flow, row, call)
    if name not in _PRODUCTS:
        return None
    sides = tuple(call.inputs[1:] if name in _ADDS_TO else call.inputs)
    factor = number_of(call, "alpha", missing=1.0) if name in _ADDS_TO else 1.0
    if name == "einsum" and len(sides) == _TWO + 1:
        # A scale that is one more operand: "bqd,bkd,->bqk".
        scales = [use for use in sides if not use.requires_grad and not shape_of(flow, use.tensor)]
        values = flow.values_of(scales[0], row) if len(scales) == 1 else None
        sides = tuple(use for use in sides if use not in scales)
        factor = 0.0 if values is None or values.minimum is None else values.minimum
    if len(sides) != _TWO or not all(use.requires_grad for use in sides):
        return None
    if any(flow.log.tensors[use.tensor].role == "parameter" for use in sides):
        return None
    return Product(sides, _contracted(flow, call, sides), factor)


def _contracted(flow: Dataflow, call: Call, sides: tuple[TensorUse, ...]) -> int:
    """The size of the axis over which a product sums."""
    shape = shape_of(flow, sides[0].tensor)
    if plain_name(call.function) == "einsum":
        equation = equation_of(call)
        first = equation.terms[0]
        summed = [axis for axis, letter in enumerate(first) if letter not in equation.result]
        if len(summed) == 1 and len(first) == len(shape):
            return shape[summed[0]]
    return shape[-1] if shape else 1


def _product_in_sum(flow: Dataflow, row: int, call: Call) -> Product | None:
    """``(q.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1)``."""
    shape = shape_of(flow, call.inputs[0].tensor)
    axis, made = axis_of(call, len(shape)), flow.newest_producer(call.inputs[0].tensor, row)
    product = None if made is None else flow.log.calls[made]
    if axis is None or product is None or plain_name(product.function) != "mul" or len(product.live_inputs) != _TWO:
        return None
    first, second = (shape_of(flow, use.tensor) for use in product.inputs)
    is_table = len(first) == len(second) and first != second and first[axis] == second[axis]
    return Product(product.inputs, shape[axis]) if is_table else None
