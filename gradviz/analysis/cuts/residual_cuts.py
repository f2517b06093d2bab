"""Cuts beside a live path from the same tensor, where both paths are added up or concatenated again.

``x.detach() + block(x)``, ``x + block(x.detach())``: what is above gets a part of its gradient only. Programs cut on
purpose where paths meet in a comparison, a product or a difference: targets, weights and straight-through estimators.
"""

from __future__ import annotations

from gradviz.analysis.cuts.cut_paths import CutPath, alive_above
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call, TensorUse

_JOINS = frozenset({"add", "cat", "concat", "concatenate", "stack"})
_TURNS = frozenset({"sub", "neg"})
_MAX_CALLS = 200
_KINDS = frozenset({"detach", "data", "no_grad", "inference"})


def joins_its_live_path(histories: ParameterHistories, cut_path: CutPath) -> bool:
    """Whether a cut path meets a live path from the same tensor in a sum, with trained parameters on one of both."""
    flow, cut = histories.flow, cut_path.cut
    if cut.kind not in _KINDS or cut_path.doubt or len(cut.live_inputs) != 1:
        return False
    tensor, has_parameters = cut.live_inputs[0], False
    made = flow.newest_producer(tensor, cut.call)
    if made is None or _is_number(flow, tensor):
        return False
    before = cut.call
    for row in cut_path.calls[1:_MAX_CALLS]:
        call = flow.log.calls[row]
        given = {use.tensor for use in flow.log.calls[before].outputs}
        others = [use for use in call.live_inputs if use.tensor not in given]
        meeting = [use for use in others if tensor in alive_above(flow, [(use.tensor, row)])]
        if meeting:
            return _is_sum(flow, call) and (has_parameters or _has_parameters(histories, meeting[0], row, made))
        if plain_name(call.function) in _TURNS or any(_is_number(flow, use.tensor) for use in call.outputs):
            return False
        has_parameters = has_parameters or any(use.tensor in histories.trained for use in others)
        before = row
    return False


def _is_sum(flow: Dataflow, call: Call) -> bool:
    return plain_name(call.function) in _JOINS and not any(_is_number(flow, use.tensor) for use in call.outputs)


def _has_parameters(histories: ParameterHistories, use: TensorUse, row: int, made: int) -> bool:
    """Whether trained parameters went into a live operand after the call that made the tensor."""
    calls = histories.log.calls
    return any(
        given.tensor in histories.trained
        for above in histories.flow.ancestors(use.tensor, row, made + 1)
        for given in calls[above].inputs
    )


def _is_number(flow: Dataflow, tensor: int) -> bool:
    return all(size == 1 for size in flow.log.tensors[tensor].facts.shape)
