"""Weights that a gradient has moved within one graph, where that gradient is a constant: a meta step of first order.

``fast = weight - rate * gradient`` has the history of ``weight``, so a loss of ``fast`` trains ``weight``. What the
gradient itself depends on is missing, unless it was computed with ``create_graph=True``.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.graph_uses import GraphUses
from gradviz.analysis.dataflow.reached_calls import reached_by
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call, TensorUse

_SCALES = frozenset({"mul", "div", "neg", "clamp", "rmul"})
_MOVES = frozenset({"add", "sub", "rsub", "addcdiv", "addcmul"})
_MAX_SCALES = 4


class FirstOrderUpdate(Struct, frozen=True):
    """Updates by the gradients of one call of ``autograd.grad()``."""

    gradient: int
    """That call."""
    update: int
    """The first call that moved a tensor by one of its results."""
    backward: int
    """The last backward that goes through such an update."""
    moved: tuple[int, ...]
    """The leaves among the moved tensors."""
    keeps_its_graph: bool
    """Whether it was called with ``retain_graph=True``, and nothing later goes through that graph."""


def first_order_updates(histories: ParameterHistories, uses: GraphUses) -> Iterator[FirstOrderUpdate]:
    """In the order of the calls of ``autograd.grad()``."""
    flow, calls = histories.flow, histories.log.calls
    used = {
        row: backward for backward in histories.last_backward_of_each_line for row in reached_by(flow, backward).members
    }
    needless = set(uses.retained_needlessly) if uses.is_complete else set()
    for row in histories.backward_calls:
        if not _is_plain_gradient(calls[row]):
            continue
        moves = [
            (move, by) for use in calls[row].asked for move, by in _updates_of(histories, row, use) if move in used
        ]
        if moves:
            leaves = tuple(sorted({moved.tensor for _, moved in moves if moved.is_leaf}))
            yield FirstOrderUpdate(row, moves[0][0], used[moves[0][0]], leaves, row in needless)


def _is_plain_gradient(call: Call) -> bool:
    is_done = call.raised is None and bool(call.outputs)
    return is_done and call.function.endswith(".grad") and not call.scalars.get("create_graph")


def _updates_of(histories: ParameterHistories, row: int, asked: TensorUse) -> Iterator[tuple[int, TensorUse]]:
    """The calls that move the tensor whose gradient was asked for by that gradient, perhaps times a number,
    or a learned rate."""
    flow, calls = histories.flow, histories.log.calls
    given = "return" + asked.place.removeprefix("input")
    waiting = [(use.tensor, 0) for use in calls[row].outputs if use.place == given and not use.requires_grad]
    while waiting:
        tensor, scales = waiting.pop()
        for user in flow.users(tensor, row):
            call = calls[user]
            name = plain_name(call.function)
            moved = next((use for use in call.inputs if use.tensor == asked.tensor), None)
            if name in _MOVES and moved is not None and any(use.has_grad_fn for use in call.outputs):
                yield user, moved
            elif name in _SCALES and scales < _MAX_SCALES:
                waiting += [(use.tensor, scales + 1) for use in call.outputs]
