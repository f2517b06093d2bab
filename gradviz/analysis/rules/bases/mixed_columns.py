"""Columns of a tensor: the calls that take single ones of them, and whether a layer takes several of them at once."""

from __future__ import annotations

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

_Columns = frozenset[object]
_SELECT = frozenset({"getitem", "select", "unbind", "split", "chunk", "tensor_split", "narrow", "index_select"})
LAYERS = frozenset({"linear", "addmm", "matmul", "mm", "bmm", "baddbmm", "einsum"})


def columns_taken(flow: Dataflow, tensor: int, row: int) -> dict[object, int]:
    """By column of a tensor: the first call after `row` that takes it alone."""
    single = _single(flow, tensor)
    taken: dict[object, int] = {}
    for user in flow.users(tensor, row) if single else ():
        call = flow.log.calls[user]
        if plain_name(call.function) in _SELECT:
            for use in call.outputs:
                if shape_of(flow, use.tensor) in single:
                    taken.setdefault(_name_of_column(call, use.place), user)
    return taken


def are_mixed(flow: Dataflow, given: int, result: int, row: int) -> bool:
    """Whether a layer takes several columns of a tensor at once, on the way to a result.

    Sums of functions of one column each do not mix them, nor do layers that take each column as a sample.
    """
    columns: dict[int, _Columns] = {given: frozenset(range(shape_of(flow, given)[-1]))}
    for each in flow.ancestors(result, row, flow.step_before(row)):
        call = flow.log.calls[each]
        known = [use.tensor for use in call.inputs if use.tensor in columns]
        if not known:
            continue
        if plain_name(call.function) in LAYERS and any(len(columns[tensor]) > 1 for tensor in known):
            return True
        for use in call.outputs:
            of_inputs = frozenset[object]().union(*(columns[tensor] for tensor in known))
            columns[use.tensor] = _columns_of(flow, call, known[0], use.tensor, use.place, of_inputs)
    return False


def _columns_of(flow: Dataflow, call: Call, given: int, result: int, place: str, columns: _Columns) -> _Columns:
    is_single = shape_of(flow, result) in _single(flow, given)
    if is_single and plain_name(call.function) in _SELECT:
        return frozenset({_name_of_column(call, place)})
    was_wide = shape_of(flow, given)[-1:] > (1,)
    is_apart = was_wide and shape_of(flow, result)[-1:] == (1,) and plain_name(call.function) in _SHAPE
    return frozenset() if is_apart else columns


_SHAPE = frozenset({"unsqueeze", "view", "reshape", "getitem"})
"""Where they make a last axis of size 1, each column is a sample of its own."""


def _single(flow: Dataflow, tensor: int) -> tuple[tuple[int, ...], ...]:
    """The shapes of a single column of a tensor; none if it has only one."""
    shape = shape_of(flow, tensor)
    return (shape[:-1], (*shape[:-1], 1)) if len(shape) > 1 and shape[-1] > 1 else ()


def _name_of_column(call: Call, place: str) -> object:
    return (*sorted(call.scalars.items(), key=str), place)
