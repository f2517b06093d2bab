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
            return index, (call.inputs[0].tensor, _part(call, index))
        else:
            break
    return index, (index, WHOLE)


def _part(call: Call, result: int) -> int | str:
    outputs = [use.tensor for use in call.outputs]
    return outputs.index(result) if len(outputs) > 1 else str(sorted(call.scalars.items()))
