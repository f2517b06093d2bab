"""Which calls score a trained model: its layers run, and no gradient will come of it."""

from __future__ import annotations

from collections import defaultdict

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.layer_calls import DENSE_LAYERS
from gradviz.analysis.parameters.parameter_histories import ParameterHistories


def is_scoring(histories: ParameterHistories, row: int) -> bool:
    """Whether a call runs a layer with parameters that some optimizer trains, without gradients."""
    call = histories.log.calls[row]
    is_layer = call.grad_mode != "enabled" and plain_name(call.function) in DENSE_LAYERS
    return is_layer and any(use.tensor in histories.trained for use in call.inputs)


def calls_on_data(case: Case) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """By weight: the calls of layers that take data, nothing that another layer computed; those that train the weight,
    and those that score it."""
    flow = case.dataflow
    trained: dict[int, list[int]] = defaultdict(list)
    scored: dict[int, list[int]] = defaultdict(list)
    for row, call in enumerate(flow.log.calls if case.histories.reached_by else ()):
        if plain_name(call.function) not in DENSE_LAYERS or len(call.inputs) < _BOTH or call.inputs[0].requires_grad:
            continue
        weight = call.inputs[1].tensor
        if is_scoring(case.histories, row):
            scored[weight].append(row)
        elif weight in case.histories.trained and flow.has_step_after(row) and call.grad_mode == "enabled":
            trained[weight].append(row)
    return trained, scored


def is_for_a_loss(case: Case, row: int) -> bool:
    """Whether a loss takes what comes of a call without gradients, as the value of a next state: that is a target."""
    flow, calls = case.dataflow, case.dataflow.log.calls
    below = flow.descendants(calls[row].outputs[0].tensor, row, case.histories.backward_after(row))
    return any(calls[each].live_inputs for each in below if calls[each].grad_mode == "enabled")


_BOTH = 2
