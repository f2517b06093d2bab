"""Models that run without gradients and only say what another model should learn.

A teacher of distillation, or the target encoder of a self-supervised method, may be in the optimizer by
``wrapper.parameters()``: it has no gradient there, and no step moves it. What it computes is compared with what trains,
and goes into nothing else that has a gradient.
"""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.cuts import Cut
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

_WITHOUT_GRADIENTS = ("no_grad", "inference")
_TARGET_IS_SECOND = frozenset({"kl_div", "cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits"})
_EITHER_WAY = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "cosine_similarity"})
_DISTANCE = frozenset({"pow", "square", "abs", "norm", "vector_norm"})
_LOG_SHARES = frozenset({"log_softmax", "logsigmoid", "log"})
_SHARES = frozenset({"softmax", "sigmoid"})
_MAX_TENSORS = 10_000


def only_sets_targets(flow: Dataflow, cuts: tuple[Cut, ...], before: int) -> bool:
    """Whether all that was computed without gradients from the results of cuts becomes the target of a comparison."""
    if any(cut.kind not in _WITHOUT_GRADIENTS for cut in cuts):
        return False
    calls = flow.log.calls
    waiting = [
        (tensor, cut.call, plain_name(calls[cut.call].function) in _SHARES)
        for cut in cuts
        for tensor in cut.dead_outputs
    ]
    seen, is_compared = {tensor for tensor, _, _ in waiting}, False
    while waiting:
        tensor, after, is_shares = waiting.pop()
        for row in flow.users(tensor, after):
            call = calls[row]
            if row >= before or not call.outputs:
                continue
            if call.grad_mode == "enabled" and any(use.requires_grad for use in call.outputs):
                if not _is_comparison(flow, row, tensor, is_shares=is_shares):
                    return False
                is_compared = True
                continue
            found = is_shares or plain_name(call.function) in _SHARES
            new = [use.tensor for use in call.outputs if use.tensor not in seen]
            seen.update(new)
            waiting += [(each, row, found) for each in new]
            if len(seen) > _MAX_TENSORS:
                return False
    return is_compared


def _is_comparison(flow: Dataflow, row: int, target: int, *, is_shares: bool) -> bool:
    """Whether a call compares a constant with what trains: as a loss, as the square of a difference, or as the
    cross-entropy of shares, written out."""
    call = flow.log.calls[row]
    name = plain_name(call.function)
    if name in _EITHER_WAY:
        return True
    if name in _TARGET_IS_SECOND:
        return any(use.tensor == target and use.place in ("1", "target") for use in call.inputs)
    if name == "sub":
        return any(_is_distance(flow.log.calls[user]) for user in flow.users(call.outputs[0].tensor, row))
    if name == "mul" and is_shares:
        others = (use.tensor for use in call.inputs if use.tensor != target)
        return any(_is_log_of_shares(flow, other, row) for other in others)
    return False


def _is_distance(call: Call) -> bool:
    name = plain_name(call.function)
    return name in _DISTANCE or (name == "mul" and len({use.tensor for use in call.inputs}) == 1)


def _is_log_of_shares(flow: Dataflow, tensor: int, row: int) -> bool:
    made = flow.newest_producer(tensor, row)
    return made is not None and plain_name(flow.log.calls[made].function) in _LOG_SHARES
