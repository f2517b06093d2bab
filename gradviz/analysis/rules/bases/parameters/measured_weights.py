"""Weights of layers of which a loss measures the size."""

from __future__ import annotations

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.linear_terms import is_square_of_number

_LAYERS = frozenset({"linear", "conv1d", "conv2d", "conv3d", "matmul", "mm", "addmm", "bmm"})
_MATRIX = 2


def squared_number(flow: Dataflow, row: int) -> int:
    """If a call squares a single number: the call that made it, else itself."""
    call = flow.log.calls[row]
    made = flow.newest_producer(call.inputs[0].tensor, row) if is_square_of_number(flow, call) else None
    return row if made is None else made


def is_matrix_of_layer(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a layer computes with a leaf of two axes or more, in the step of a call."""
    if len(shape_of(flow, tensor)) < _MATRIX:
        return False
    users = (flow.log.calls[user] for user in flow.users(tensor, flow.step_before(row)))
    return any(plain_name(call.function) in _LAYERS and call.inputs[0].tensor != tensor for call in users)
