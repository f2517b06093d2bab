"""Which axes of a tensor were scaled to a length of one, and which axis a product sums over."""

from __future__ import annotations

from math import prod

from msgspec import Struct

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.analysis.rules.bases.formulas.lengths import SAME_VALUES, Division, division_by_length
from gradviz.graph.call_log import Call, TensorUse

_SAME_AXES = frozenset({
    "detach", "clone", "contiguous", "float", "to", "double", "half", "roll", "flip", "dropout", "chunk", "split",
})  # fmt: skip
_MAX_MAKERS = 8


class Scaled(Struct, frozen=True):
    """A tensor that was divided by its lengths."""

    row: int
    axes: frozenset[int]
    """The axes over which the lengths were taken, of those with more than one element."""
    axis: int
    """The axis that a product sums over, as an axis of this tensor."""

    @property
    def is_of_each(self) -> bool:
        """Whether each vector along the axis of the product has a length of its own."""
        return self.axes == {self.axis}


def scaled_above(flow: Dataflow, row: int, use: TensorUse, axis: int) -> Scaled | None:
    """The division by lengths that made what a product sums over an axis; None if there is none."""
    tensor, before = use.tensor, row
    for _ in range(_MAX_MAKERS):
        made = flow.producers(tensor, before)
        if not made:
            return None
        before = made[-1]
        call, shape = flow.log.calls[before], shape_of(flow, tensor)
        if not call.inputs or call.kind != "operation" or not -len(shape) <= axis < len(shape):
            return None
        axes = _axes_of_lengths(flow, before, call, shape)
        if axes is not None:
            return Scaled(before, frozenset(each for each in axes if shape[each] > 1), axis)
        source = _source(flow, call, shape)
        moved = None if source is None else _axis_before(flow, call, axis, len(shape))
        if source is None or moved is None:
            return None
        tensor, axis = source, moved
    return None


def _source(flow: Dataflow, call: Call, shape: tuple[int, ...]) -> int | None:
    """The input whose values a call keeps; of a product, the other factor of a single number."""
    if plain_name(call.function) not in _SCALE:
        return call.inputs[0].tensor
    as_large = [use.tensor for use in call.inputs if shape_of(flow, use.tensor) == shape]
    others = [shape_of(flow, use.tensor) for use in call.inputs if use.tensor not in as_large]
    return as_large[0] if len(as_large) == 1 and all(prod(other) == 1 for other in others) else None


_SCALE = frozenset({"mul", "div"})


def _axis_before(flow: Dataflow, call: Call, axis: int, rank: int) -> int | None:
    """The axis of the first input which became an axis of the result; None if that cannot be told."""
    name, given = plain_name(call.function), shape_of(flow, call.inputs[0].tensor)
    if name in ("t", "T", "mT"):
        return {rank - 1: rank - 2, rank - 2: rank - 1}.get(axis, axis)
    if name in ("transpose", "swapaxes", "swapdims"):
        one, other = (call.scalars.get(place) for place in ("1", "2"))
        if type(one) is not int or type(other) is not int:
            return None
        return {one % rank: other % rank, other % rank: one % rank}.get(axis, axis)
    if name in ("unbind", "select"):
        removed = axis_of(call, rank + 1) if name == "select" else call.scalars.get("1", call.scalars.get("dim", 0))
        removed = removed % (rank + 1) if type(removed) is int else None
        return None if removed is None or len(given) != rank + 1 else axis + (axis >= removed)
    if name == "cat":
        return axis if len(given) == rank else None
    if name == "unsqueeze":
        added = axis_of(call, rank)
        return None if added is None or added == axis else axis - (added < axis)
    if name in _SCALE:
        return axis
    return axis if name in _SAME_AXES and len(given) == rank else None


# -- lengths -----------------------------------------------------------------------------------------------------------


def _axes_of_lengths(flow: Dataflow, row: int, call: Call, shape: tuple[int, ...]) -> frozenset[int] | None:
    """The axes over which a call takes the lengths by which it divides; None if it does not."""
    name = plain_name(call.function)
    if name == "normalize":
        axis = axis_of(call, len(shape), "2")
        return (
            None if axis is None or call.scalars.get("p", call.scalars.get("1", 2)) != _EUCLIDEAN else frozenset({axis})
        )
    division = division_by_length(flow, row, call)
    if division is None or not division.is_own:
        return None
    lengths = shape_of(flow, division.length)
    padded = (1,) * (len(shape) - len(lengths)) + lengths
    return frozenset(index for index, size in enumerate(padded) if size == 1) if len(padded) == len(shape) else None


_EUCLIDEAN = 2
_TWO = 2


def foreign_lengths(flow: Dataflow, row: int) -> tuple[int, int] | None:
    """Of a product of two tensors of vectors, the call that divides the ones by the lengths of the others, and the
    call that divides these by their own."""
    found: list[tuple[int, Division]] = []
    for use, _ in factors(flow, row, flow.log.calls[row]):
        for made, call in flow.makers(use.tensor, row, _MAX_MAKERS):
            division = division_by_length(flow, made, call)
            if division is not None:
                found.append((made, division))
                break
            if plain_name(call.function) not in SAME_VALUES | {"t", "T", "mT", "transpose", "permute"}:
                break
    for (wrong, division), (right, other) in (found, found[::-1]) if len(found) == _TWO else ():
        # The lengths of rows with other numbers than the rows, or those of other vectors.
        if not division.is_own and other.is_own and division.of in (other.rows, (other.rows[0], ())):
            return wrong, right
    return None


# -- products ----------------------------------------------------------------------------------------------------------


def factors(flow: Dataflow, row: int, call: Call) -> tuple[tuple[TensorUse, int], ...]:
    """The two tensors of a product that sums over one axis, each with that axis; empty for other calls."""
    name = plain_name(call.function)
    if name in ("matmul", "mm", "bmm") and len(call.inputs) == _TWO:
        first, second = call.inputs
        ranks = [len(shape_of(flow, use.tensor)) for use in call.inputs]
        return ((first, ranks[0] - 1), (second, ranks[1] - 2)) if min(ranks) >= _TWO else ()
    if name == "linear" and len(call.inputs) == _TWO:
        return tuple((use, len(shape_of(flow, use.tensor)) - 1) for use in call.inputs)
    if name == "einsum":
        return _factors_of_einsum(call)
    if name == "sum" and call.inputs:
        return _factors_of_sum(flow, row, call)
    if name == "vecdot" and len(call.inputs) == _TWO:
        ranks = [len(shape_of(flow, use.tensor)) for use in call.inputs]
        axes = [axis_of(call, rank) for rank in ranks]
        return tuple(
            (use, rank - 1 if axis is None else axis) for use, rank, axis in zip(call.inputs, ranks, axes, strict=True)
        )
    return ()


def _factors_of_einsum(call: Call) -> tuple[tuple[TensorUse, int], ...]:
    equation = equation_of(call)
    if not equation.is_plain or len(equation.terms) != _TWO or len(call.inputs) != _TWO:
        return ()
    one, other = equation.terms
    shared = (set(one) & set(other)) - set(equation.result)
    if len(shared) != 1:
        return ()
    (label,) = shared
    return (call.inputs[0], one.index(label)), (call.inputs[1], other.index(label))


def _factors_of_sum(flow: Dataflow, row: int, call: Call) -> tuple[tuple[TensorUse, int], ...]:
    """``(a * b).sum(-1)``."""
    made = flow.producers(call.inputs[0].tensor, row)
    product = flow.log.calls[made[-1]] if made else None
    shape = shape_of(flow, call.inputs[0].tensor)
    axis = axis_of(call, len(shape))
    if product is None or axis is None or plain_name(product.function) != "mul" or len(product.inputs) != _TWO:
        return ()
    if any(len(shape_of(flow, use.tensor)) != len(shape) for use in product.inputs):
        return ()
    return tuple((use, axis) for use in product.inputs)
