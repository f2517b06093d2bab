"""Coordinates of a grid: which axis of a tensor they count along."""

from __future__ import annotations

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.batches.axis_sources import Label, sources_of_axis
from gradviz.graph.call_log import Call

_COUNTS = frozenset({"arange", "linspace"})


def counts_along(flow: Dataflow, tensor: int, axes: list[int], row: int) -> list[int]:
    """Those of some axes of a tensor along which a coordinate counts that is in it: ``meshgrid``, or ``arange`` that
    was given further axes."""
    return [
        axis
        for axis in axes
        if any(_is_counted(flow, label, row) for label in sources_of_axis(flow, tensor, axis, row) or ())
    ]


def _is_counted(flow: Dataflow, label: Label, row: int) -> bool:
    tensor, axis = label
    made = flow.first_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    if call is None:
        return False
    name = plain_name(call.function)
    if name == "meshgrid":
        return axis == _axis_of_meshgrid(call, tensor)
    return name in _COUNTS and len(shape_of(flow, tensor)) == 1


def _axis_of_meshgrid(call: Call, tensor: int) -> int | None:
    """The axis along which one of the results of ``meshgrid`` counts."""
    index = next((at for at, use in enumerate(call.outputs) if use.tensor == tensor), None)
    is_turned = call.scalars.get("indexing") == "xy" and index is not None and index < _TURNED
    return None if index is None else 1 - index if is_turned else index


_TURNED = 2
"""With ``indexing="xy"`` the first two axes change places."""
