"""The call that a prediction comes from, which is the same layer in training and in an evaluation."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow

SAME_VALUES = frozenset({
    "squeeze", "unsqueeze", "view", "view_as", "reshape", "flatten", "ravel", "getitem", "detach", "clone", "cpu",
    "cuda", "to", "float", "double", "type", "data", "contiguous", "cat", "stack", "permute", "transpose", "expand",
})  # fmt: skip
"""Calls after which the values are the same, in another shape, of another type, or among others."""
_MAX_CALLS = 12

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
