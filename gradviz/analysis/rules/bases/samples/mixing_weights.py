"""The tensor that has the share of each sample in a mixture, and whether a factor is what it leaves of 1."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, is_number_first, number_of
from gradviz.graph.call_log import TensorUse

_MAX_STEPS = 6

Weight = tuple[int, bool]
"""The tensor that has the shares of all samples, and whether it is one minus these."""


def weight_of(flow: Dataflow, use: TensorUse, before: int) -> Weight | None:
    """The tensor of shares that a factor is, whatever its shape, or that it is one minus."""
    tensor, is_rest = use.tensor, False
    for row, call in flow.makers(tensor, before, _MAX_STEPS):
        name = plain_name(call.function)
        is_turned = name == "sub" and len(call.inputs) == 1 and is_number_first(call)
        if is_turned and number_of(call, *OPERAND, missing=0.0) == 1:
            is_rest = not is_rest
        elif not (name in SHAPE_ONLY and len(call.inputs) == 1) or row >= before:
            break
        tensor = call.inputs[0].tensor
    return tensor, is_rest
