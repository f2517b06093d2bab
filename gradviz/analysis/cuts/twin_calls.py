"""Comparisons that are made twice in one loss, where an operand is detached in the one and in the other none is.

A loss that moves two results towards each other cuts each of them off once: ``mse(codes, z.detach())`` and ``mse(z,
codes.detach())``, or ``cos(p1, z2.detach())`` and ``cos(p2, z1.detach())``. Where only one of both comparisons has a
cut, the other one's was forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from gradviz.analysis.dataflow.backward_calls import BackwardCalls
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call, TensorUse

_COMPARE = frozenset({
    "sub", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "cosine_similarity", "kl_div", "cross_entropy",
    "cdist", "pairwise_distance", "cosine_embedding_loss",
})  # fmt: skip
_SHAPES = frozenset({"detach", "view", "reshape", "squeeze", "unsqueeze", "expand", "permute", "transpose", "t", "T",
                     "flatten", "contiguous", "float", "to", "clone"})  # fmt: skip
_OPERANDS = 2
_MAX_CALLS = 2_000


class TwinCalls(Struct, frozen=True):
    """Two comparisons of the same results, or of results of the same modules."""

    open: int
    """The call in which both operands have a history."""
    cut: int
    """The call in which one of them is detached."""
    detached: int
    """That operand, before it was detached."""
    forgotten: int
    """What is like it in the other call."""
    backward: int


class _Operand(Struct, frozen=True):
    tensor: int
    """Before it was detached, and before its shape was changed."""
    is_detached: bool
    origin: object
    """The same for results of the same line of a module."""


def twin_calls(histories: ParameterHistories, backward_calls: BackwardCalls) -> Iterator[TwinCalls]:
    """Those of the last backward call of each line, one for each open call."""
    flow = histories.flow
    for backward in histories.last_trained_backward_of_each_line:
        since = flow.step_before(backward)
        rows = [row for row in backward_calls.reached(backward).rows if row > since and _compares(flow.log.calls[row])]
        if len(rows) <= _MAX_CALLS:
            yield from _twins_among(flow, rows, backward)


def _compares(call: Call) -> bool:
    is_operation = call.kind == "operation" and plain_name(call.function) in _COMPARE
    return is_operation and len(_tensors(call)) == _OPERANDS


def _tensors(call: Call) -> list[TensorUse]:
    return [use for use in call.inputs if use.place in ("0", "1", "input", "target", "x1", "x2")]


def _twins_among(flow: Dataflow, rows: Sequence[int], backward: int) -> Iterator[TwinCalls]:
    known = [(row, [_operand(flow, use, row) for use in _tensors(flow.log.calls[row])]) for row in rows]
    cut = [(row, operands) for row, operands in known if sum(each.is_detached for each in operands) == 1]
    for row, operands in known if cut else ():
        calls = flow.log.calls
        is_open = not any(each.is_detached for each in operands) and len(calls[row].live_inputs) == _OPERANDS
        for other, theirs in cut if is_open else ():
            same_name = plain_name(calls[row].function) == plain_name(calls[other].function)
            if same_name and (pair := _forgotten(operands, theirs)) is not None:
                yield TwinCalls(row, other, pair[1], pair[0], backward)
                break


def _forgotten(open_operands: Sequence[_Operand], cut_operands: Sequence[_Operand]) -> tuple[int, int] | None:
    """What should be detached in the open call, and what is in the other one; None if they compare something else."""
    detached = next(each for each in cut_operands if each.is_detached)
    live = next(each for each in cut_operands if not each.is_detached)
    tensors = {each.tensor for each in open_operands}
    if tensors == {detached.tensor, live.tensor}:
        # The same two results: the other one is to be cut off here.
        return live.tensor, detached.tensor
    for own, other in (open_operands, open_operands[::-1]):
        is_like = own.origin == detached.origin is not None and other.origin == live.origin is not None
        if is_like and own.origin != other.origin and own.tensor != detached.tensor and other.tensor != live.tensor:
            return own.tensor, detached.tensor
    return None


def _operand(flow: Dataflow, use: TensorUse, before: int) -> _Operand:
    tensor, is_detached = use.tensor, False
    while True:
        row = flow.newest_producer(tensor, before)
        call = None if row is None else flow.log.calls[row]
        if row is None or call is None or plain_name(call.function) not in _SHAPES or not call.inputs:
            break
        is_detached |= plain_name(call.function) == "detach" and call.inputs[0].requires_grad
        tensor, before = call.inputs[0].tensor, row
    return _Operand(tensor, is_detached, origin_of(flow, row))


def origin_of(flow: Dataflow, row: int | None) -> object:
    """The module and the function that made a result; None for what no module made."""
    if row is None or (scope := flow.log.calls[row].scope) is None:
        return None
    return flow.log.scopes[scope].path, flow.log.calls[row].function
