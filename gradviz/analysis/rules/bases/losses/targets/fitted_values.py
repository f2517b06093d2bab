"""What a program fits to what: predictions with a gradient beside targets without one, as errors compare them."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, tensor_before
from gradviz.graph.call_log import Call

ALL_VALUES = frozenset({"detach", "clone", *SHAPE_ONLY}) - {"getitem"}
"""Operations that keep all values of a tensor."""
_BOTH = 2
_ERRORS = frozenset({"mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss"})
_SQUARES = frozenset({"pow", "square", "abs", "norm", "vector_norm"})
_PRODUCTS = frozenset({"mul", "dot", "inner", "vdot", "vecdot", "einsum", "tensordot", "matmul", "mv"})


def fitted_values(flow: Dataflow) -> Iterator[tuple[int, int]]:
    """For each error: the prediction and its target, before changes of shape."""
    squared = _last_squares(flow)
    for row, call in enumerate(flow.log.calls):
        if len(call.inputs) == _BOTH and _is_error(row, call, squared) and len(call.live_inputs) == 1:
            live, dead = sorted(call.inputs, key=lambda use: not use.requires_grad)
            yield tensor_before(flow, live.tensor, row, ALL_VALUES), tensor_before(flow, dead.tensor, row, ALL_VALUES)


def _last_squares(flow: Dataflow) -> dict[int, int]:
    """For each tensor of which a square or a norm is taken: the last call that does so."""
    return {use.tensor: row for row, call in enumerate(flow.log.calls) if _squares(call) for use in call.inputs}


def _squares(call: Call) -> bool:
    name = plain_name(call.function)
    is_product = name in _PRODUCTS and len({use.tensor for use in call.inputs}) == 1 < len(call.inputs)
    return name in _SQUARES or is_product


def _is_error(row: int, call: Call, squared: dict[int, int]) -> bool:
    """Whether a call compares two tensors, or returns their difference, of which a square or a norm is taken."""
    name = plain_name(call.function)
    is_difference = name == "sub" and bool(call.outputs)
    return name in _ERRORS or (is_difference and squared.get(call.outputs[0].tensor, -1) > row)
