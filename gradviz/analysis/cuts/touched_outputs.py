"""Outputs that a loss only touches: ``loss + 0.0 * outputs.sum()``, so that all parameters get a gradient, which is 0.

`DistributedDataParallel` waits for the gradients of all parameters. A bare sum of what layers compute is no penalty:
without a bound below, no weight other than 0 makes sense for it.
"""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow

_SUMS = frozenset({"sum", "mean"})
_MOVES = frozenset({
    "add", "stack", "cat", "view", "reshape", "flatten", "squeeze", "unsqueeze", "permute", "transpose", "getitem",
    "float", "to", "contiguous",
})  # fmt: skip
_ACTIVATIONS = frozenset({"relu", "gelu", "silu", "tanh", "sigmoid", "softmax", "leaky_relu", "elu", "dropout"})
_MOST_CALLS = 200


def is_only_touched(flow: Dataflow, tensor: int, before: int) -> bool:
    """Whether a tensor is a plain sum of outputs of layers, and perhaps of parameters."""
    since = flow.step_before(before)
    waiting, seen, has_sum = [(tensor, before, False)], set[tuple[int, bool]](), False
    while waiting:
        given, row, is_summed = waiting.pop()
        made = flow.newest_producer(given, row)
        if made is None or made < since:
            if not (is_summed and flow.log.tensors[given].requires_grad and flow.log.tensors[given].is_leaf):
                return False
            continue
        if (made, is_summed) in seen:
            continue
        seen.add((made, is_summed))
        call = flow.log.calls[made]
        name, live = plain_name(call.function), call.live_inputs
        is_sum = name in _SUMS
        has_sum = has_sum or is_sum
        if (is_sum or name in _MOVES) and len(live) == len(call.inputs) and len(seen) < _MOST_CALLS:
            waiting += [(use.tensor, made, is_summed or is_sum) for use in live]
        elif not is_summed or not _is_of_layer(flow, made):
            return False
    return has_sum


def _is_of_layer(flow: Dataflow, row: int) -> bool:
    """Whether a call is one with parameters, or the activation behind one."""
    call = flow.log.calls[row]
    if plain_name(call.function) in _ACTIVATIONS and len(call.live_inputs) == 1:
        behind = flow.newest_producer(call.live_inputs[0].tensor, row)
        return behind is not None and _takes_parameter(flow, behind)
    return _takes_parameter(flow, row)


def _takes_parameter(flow: Dataflow, row: int) -> bool:
    return any(flow.log.tensors[use.tensor].role == "parameter" for use in flow.log.calls[row].live_inputs)
