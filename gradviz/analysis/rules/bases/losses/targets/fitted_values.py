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
    for row, call in enumerate(flow.log.calls):
        if len(call.inputs) == _BOTH and len(call.live_inputs) == 1 and _is_error(flow, row, call):
            live, dead = sorted(call.inputs, key=lambda use: not use.requires_grad)
            yield tensor_before(flow, live.tensor, row, ALL_VALUES), tensor_before(flow, dead.tensor, row, ALL_VALUES)


def _is_error(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call compares two tensors, or returns their difference, of which a square or a norm is taken."""
    name = plain_name(call.function)
    if name in _ERRORS:
        return True
    users = (flow.log.calls[user] for user in flow.users(call.outputs[0].tensor, row)) if call.outputs else ()
    return name == "sub" and any(
        plain_name(user.function) in _SQUARES
        or (plain_name(user.function) in _PRODUCTS and len({use.tensor for use in user.inputs}) == 1 < len(user.inputs))
        for user in users
    )
