"""The two ends of the edges of a graph, as the indexes say by which calls choose rows of nodes or add them up."""

from __future__ import annotations

from math import prod

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.graph.call_log import Call

End = tuple[int, int | str]
"""The tensor of which indexes are a part, and which part."""

_PARTS = frozenset({"getitem", "unbind", "select"})
_KEEPS = SHAPE_ONLY | {"long", "repeat"}
_MAX_FOLLOWED = 24
ADD_UP = frozenset({"index_add", "scatter_add", "scatter_reduce", "index_reduce"})
CHOOSE = frozenset({"getitem", "index_select", "gather", "take_along_dim", "embedding"})
"""What adds rows up at the ends of edges, and what chooses them, by their plain names."""
_MAX_CALLS = 40
_ROWS = frozenset({"getitem", "select"})
_TWO = 2
WHOLE = ""
"""The part of indexes that are a tensor of their own."""


def indexes_of(flow: Dataflow, call: Call) -> int | None:
    """The integers by which a call chooses rows, or adds them up."""
    dtypes = ((use.tensor, flow.log.tensors[use.tensor].facts.dtype) for use in call.inputs)
    return next((tensor for tensor, dtype in dtypes if dtype in ("int64", "int32")), None)


def end_of_edges(flow: Dataflow, index: int, row: int) -> tuple[int, End]:
    """The indexes as the program has them before they get the shape of the rows, and which end they are."""
    for _, call in flow.makers(index, row, _MAX_FOLLOWED):
        given = shape_of(flow, call.inputs[0].tensor) if call.inputs else ()
        name, is_whole = plain_name(call.function), prod(given) == prod(shape_of(flow, index))
        if name in _KEEPS and (is_whole or name not in _PARTS) and call.inputs:
            index = call.inputs[0].tensor
        elif name in _PARTS and len(call.inputs) == 1:
            return index, (call.inputs[0].tensor, part_of(call, index))
        else:
            break
    return index, (index, WHOLE)


def part_of(call: Call, result: int) -> int | str:
    """Which part a call that takes tensors apart returned: its place among several, or how it was chosen."""
    outputs, scalars = [use.tensor for use in call.outputs], call.scalars
    if len(outputs) > 1:
        return outputs.index(result)
    # ``source, target = edges`` and ``edges[1]`` take the same two rows.
    chosen = scalars.get("1") if len(scalars) == 1 else scalars.get("2") if scalars.get("1") == 0 else None
    is_row = plain_name(call.function) in _ROWS and type(chosen) is int
    return chosen % _TWO if is_row and isinstance(chosen, int) else str(sorted(scalars.items()))


def index_of_rows(flow: Dataflow, row: int) -> tuple[int, End] | None:
    """The indexes of a call along its first axis, and which end of the edges they are."""
    call = flow.log.calls[row]
    has_axis = plain_name(call.function) not in ("getitem", "embedding")
    if has_axis and call.scalars.get("1", call.scalars.get("dim", 0)) != 0:
        return None
    index = indexes_of(flow, call)
    found = None if index is None else end_of_edges(flow, index, row)
    return found if found is not None and shape_of(flow, found[0]) else None


def chosen_by(flow: Dataflow, tensor: int, before: int) -> tuple[dict[End, int], bool]:
    """The calls that chose, by each end, what rows are computed from, and whether no other data are in them."""
    waiting, seen, chosen = [(tensor, before)], set[int](), dict[End, int]()
    edges = shape_of(flow, tensor)[:1]
    while waiting:
        each, row = waiting.pop()
        made = flow.newest_producer(each, row)
        if made is None or len(seen) > _MAX_CALLS:
            return chosen, False
        call = flow.log.calls[made]
        if made in seen:
            continue
        seen.add(made)
        index = index_of_rows(flow, made) if plain_name(call.function) in CHOOSE and len(call.inputs) >= _TWO else None
        if index is not None:
            chosen[index[1]] = made
            continue
        of_edges = [use.tensor for use in call.inputs if shape_of(flow, use.tensor)[:1] == edges]
        if not of_edges:
            return chosen, False
        waiting += [(of_edge, made) for of_edge in of_edges]
    return chosen, True
