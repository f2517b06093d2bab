"""Values of each sample that a product takes along the last axis of a matrix of as many samples as times."""

from __future__ import annotations

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.analysis.rules.bases.batches.axis_sources import sources_of_axis
from gradviz.analysis.rules.bases.batches.row_origins import are_same_samples
from gradviz.graph.call_log import Call, TensorUse

_CONTRACTS = frozenset({"mv", "matmul", "einsum"})
_BROADCASTS = frozenset({"mul", "div"})
_BOTH = 2


def matrix_by_samples(flow: Dataflow, call: Call) -> tuple[TensorUse, TensorUse] | None:
    """The trained square matrix and the data along whose last axis a call takes or spreads it."""
    name = plain_name(call.function)
    if name not in _CONTRACTS | _BROADCASTS or len(call.inputs) != _BOTH or len(call.live_inputs) != 1:
        return None
    matrix, vector = call.inputs if call.inputs[0].requires_grad else call.inputs[::-1]
    shape, short = shape_of(flow, matrix.tensor), shape_of(flow, vector.tensor)
    if len(shape) != _BOTH or shape[0] != shape[1] or short != shape[:1] or short[0] < _BOTH:
        return None
    if flow.log.tensors[matrix.tensor].role == "parameter" or flow.log.tensors[vector.tensor].role != "tensor":
        return None
    if name in ("mv", "matmul"):
        return (matrix, vector) if matrix is call.inputs[0] else None
    if name == "einsum":
        return (matrix, vector) if _takes_last_axis(call, matrix) else None
    return matrix, vector


def _takes_last_axis(call: Call, matrix: TensorUse) -> bool:
    terms = equation_of(call).terms
    letters = terms if matrix is call.inputs[0] else terms[::-1]
    return len(letters) == _BOTH and len(letters[0]) == _BOTH and letters[0][1] == letters[1] != letters[0][0]


def are_times_by_samples(flow: Dataflow, row: int, matrix: TensorUse, vector: TensorUse) -> bool:
    """Whether the data has a value for each row of the matrix, whose last axis is one of stored data that are longer.

    A table of all pairs has samples on both axes, and no data have these two.
    """
    if not are_same_samples(flow, (matrix, row), (vector, row)):
        return False
    times = sources_of_axis(flow, matrix.tensor, 1, row)
    own = sources_of_axis(flow, vector.tensor, 0, row)
    if times is None or own is None or not times.isdisjoint(own):
        return False
    return any(_is_stored(flow, tensor, axis) for tensor, axis in times)


def _is_stored(flow: Dataflow, tensor: int, axis: int) -> bool:
    """Whether it is an axis behind the first of data from before the training, of more or fewer samples."""
    shape, made = shape_of(flow, tensor), flow.producers(tensor)
    taken = flow.log.calls[made[-1]] if made else None
    if taken is not None and plain_name(taken.function) in ("getitem", "index_select") and len(taken.inputs) == _BOTH:
        if shape_of(flow, taken.inputs[0].tensor)[1:] != shape[1:]:
            return False
        tensor = taken.inputs[0].tensor  # of which a tensor has chosen rows
        shape, made = shape_of(flow, tensor), flow.producers(tensor)
    steps = flow.rows_of_kind("step")
    is_before = not made or not steps or made[-1] < steps[0]
    return is_before and axis > 0 and shape[0] != shape[axis] and flow.log.tensors[tensor].role == "tensor"
