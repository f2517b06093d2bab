"""Products of two tensors, of which some are added up at once: ``a * b``, ``einsum("nd,nd->n", a, b)``, ``vecdot``.

>>> from gradviz.graph.call_log import Call, TensorUse
>>> a, b = TensorUse(0, "1", 0, True, True), TensorUse(1, "2", 0, True, True)
>>> [use.tensor for use in product_of(Call("torch.functional.einsum", inputs=(a, b), scalars={"0": "nd,nd->n"}))]
[0, 1]
>>> summed_axes(Call("torch.functional.einsum", inputs=(a, b), scalars={"0": "nd,nd->n"}), a, 2)
frozenset({1})
>>> summed_axes(Call("torch.functional.einsum", inputs=(a,), scalars={"0": "...d->..."}), a, 3)
frozenset({2})
"""

from __future__ import annotations

from gradviz.analysis.dataflow.axes import axes_of, axis_of, summed_by_einsum
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.graph.call_log import Call, TensorUse

_BOTH = 2
_ELEMENTWISE = frozenset({"mul"})
_WHOLE = frozenset({"dot", "vdot"})
_LAST = frozenset({"vecdot", "inner"})
_MATRICES = frozenset({"matmul", "mm", "bmm", "mv"})
_SQUARES = _ELEMENTWISE | {"square", "pow"}
_PRODUCTS = _ELEMENTWISE | _WHOLE | _LAST | _MATRICES | {"einsum", "linear"}


def product_of(call: Call) -> tuple[TensorUse, TensorUse] | None:
    """The two tensors that a call multiplies, whether it adds up the products or not; None for other calls."""
    name = plain_name(call.function)
    if call.kind != "operation" or name not in _PRODUCTS or len(call.inputs) != _BOTH:
        return None
    return call.inputs[0], call.inputs[1]


def is_square(call: Call) -> bool:
    """Whether a call returns squares of the elements of what it takes, or sums of these squares."""
    pair, name = product_of(call), plain_name(call.function)
    if pair is not None:
        is_elementwise = name != "linear" and name not in _MATRICES
        is_same = pair[0].tensor == pair[1].tensor
        return is_same and is_elementwise and (name != "einsum" or len(set(equation_of(call).terms)) == 1)
    power = call.scalars.get("1", call.scalars.get("exponent"))
    return name == "square" or (name == "pow" and power == _BOTH and bool(call.inputs))


def is_squared(call: Call) -> bool:
    """Whether a call returns the square of each element of what it takes, and adds none of them up."""
    return plain_name(call.function) in _SQUARES and is_square(call)


def summed_axes(call: Call, use: TensorUse, rank: int) -> frozenset[int] | None:
    """The axes of one input that a sum, a mean or a product adds up; None for other calls."""
    name = plain_name(call.function)
    if name in ("sum", "mean", "nansum", "nanmean"):
        axes = axes_of(call, rank)
        return frozenset(axes or range(rank))
    if name == "einsum":
        return summed_by_einsum(call, use, rank)
    if product_of(call) is None:
        return None
    if name in _ELEMENTWISE:
        return frozenset()
    if name in _WHOLE or rank == 1:
        return frozenset(range(rank))
    if name in _LAST or name == "linear":
        axis = axis_of(call, rank) if name == "vecdot" else None
        return frozenset({rank - 1 if axis is None else axis})
    return frozenset({rank - 1 if use is call.inputs[0] else rank - 2})
