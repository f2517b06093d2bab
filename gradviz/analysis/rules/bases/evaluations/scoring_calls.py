"""Which calls score a trained model: its layers run, and no gradient will come of it."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.layer_calls import DENSE_LAYERS
from gradviz.analysis.parameters.parameter_histories import ParameterHistories


def is_scoring(histories: ParameterHistories, row: int) -> bool:
    """Whether a call runs a layer with parameters that some optimizer trains, without gradients."""
    call = histories.log.calls[row]
    is_layer = call.grad_mode != "enabled" and plain_name(call.function) in DENSE_LAYERS
    return is_layer and any(use.tensor in histories.trained for use in call.inputs)
