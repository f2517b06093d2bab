"""The call that a prediction comes from, which is the same layer in training and in an evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gradviz.analysis.dataflow.call_words import DIFFERENCES, calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow

SAME_VALUES = frozenset({
    "squeeze", "unsqueeze", "view", "view_as", "reshape", "flatten", "ravel", "getitem", "detach", "clone", "cpu",
    "cuda", "to", "float", "double", "type", "data", "contiguous", "cat", "stack", "permute", "transpose", "expand",
})  # fmt: skip
"""Calls after which the values are the same, in another shape, of another type, or among others."""
_MAX_CALLS = 12
_BOTH = 2
_Told = TypeVar("_Told")

Layer = int | tuple[str, int, str]
"""The parameter of the layer that computed a tensor; else the line and the name of the call."""


def layer_behind(flow: Dataflow, tensor: int, row: int) -> Layer | None:
    """What computed the values of a tensor, which may have got another shape since."""
    for made, call in flow.makers(tensor, row, _MAX_CALLS):
        name = plain_name(call.function)
        if name in SAME_VALUES:
            continue
        weights = [use.tensor for use in call.inputs if flow.log.tensors[use.tensor].role == "parameter"]
        if weights:
            return weights[0]
        line = flow.line_of(made)
        return None if line is None or not call.inputs else (line.file, line.line, name)
    return None


def told_of_targets(flow: Dataflow, read: Callable[[Dataflow, int, int], _Told | None]) -> dict[Layer, _Told]:
    """By layer: what `read` tells of the targets that losses subtract from its outputs, if it tells the same of all.

    Args:
        read: gets the dataflow, the tensor of a target and the row of the loss.
    """
    found: dict[Layer, set[_Told | None]] = {}
    tried = set[int | None]()
    for row, call in calls_named(flow, DIFFERENCES):
        live = [use for use in call.inputs[:_BOTH] if use.requires_grad]
        given = [use for use in call.inputs[:_BOTH] if not use.requires_grad]
        if call.call_site in tried or not len(live) == len(given) == 1 or not flow.has_step_after(row):
            continue
        tried.add(call.call_site)
        layer = layer_behind(flow, live[0].tensor, row)
        if layer is not None:
            found.setdefault(layer, set()).add(read(flow, given[0].tensor, row))
    alone = {layer: next(iter(told)) for layer, told in found.items() if len(told) == 1}
    return {layer: told for layer, told in alone.items() if told is not None}
