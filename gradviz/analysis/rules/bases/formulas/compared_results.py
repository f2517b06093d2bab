"""Terms of a loss that fall as two results become alike: squared differences, distances, negated cosines."""

from __future__ import annotations

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, value_maker
from gradviz.analysis.rules.bases.losses.signed_terms import Term
from gradviz.graph.call_log import Call

_BOTH = 2
_ERRORS = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "pairwise_distance", "cdist"})
_SPREADS = frozenset({"var", "std", "var_mean", "std_mean", "pdist"})
"""Of one tensor: along an axis, as that of the views of a sample; and the distances of all pairs of its rows."""
_SQUARES = frozenset({"pow", "square", "abs", "norm", "vector_norm"})
_PRODUCTS = frozenset({"mul", "dot", "vecdot", "einsum"})
_KEEPS = frozenset({"normalize", "div", "relu"})


def has_data(flow: Dataflow, call: Call) -> bool:
    """Whether a sum also takes a tensor without a gradient that has more than one value."""
    dead = (use.tensor for use in call.inputs if not use.requires_grad)
    return any(flow.log.tensors[each].facts.shape for each in dead)


def sides_of(flow: Dataflow, term: Term, call: Call) -> tuple[int, int] | None:
    """The two results that a term compares, if the loss falls as they become alike."""
    name, live = plain_name(call.function), call.live_inputs
    if not term.is_sure or (term.is_weighted and term.has_both_signs):
        return None
    if name in _ERRORS and term.sign > 0 and len(live) == _BOTH:
        return live[0].tensor, live[1].tensor
    if name in _SPREADS and term.sign > 0 and len(call.inputs) == 1 == len(live):
        # It is 0 where all results along the axis are the same.
        is_result = bool(shape_of(flow, call.outputs[0].tensor)) and _is_result(flow, live[0].tensor, term.row)
        return (live[0].tensor, live[0].tensor) if is_result else None
    if name == "cosine_similarity" and term.sign < 0 and len(live) == _BOTH:
        return live[0].tensor, live[1].tensor
    if name == "mul" and term.sign < 0 and len(live) == _BOTH and live[0].tensor != live[1].tensor:
        return (
            (live[0].tensor, live[1].tensor)
            if all(_is_normalized(flow, use.tensor, term.row) for use in live)
            else None
        )
    if name in _PRODUCTS and term.sign > 0 and len(live) == _BOTH and len(call.inputs) == _BOTH:
        return _same_difference(flow, term.row, call)
    if name in _SQUARES and term.sign > 0 and len(live) == 1:
        made = flow.newest_producer(live[0].tensor, term.row)
        inner = None if made is None else flow.log.calls[made]
        if inner is not None and plain_name(inner.function) == "sub" and len(inner.live_inputs) == _BOTH:
            return inner.live_inputs[0].tensor, inner.live_inputs[1].tensor
    return None


def _is_result(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a tensor is what layers returned, and no loss or sum that was computed from it."""
    made = value_maker(flow, tensor, row, through=_KEEPS - SHAPE_ONLY)
    if made is not None and plain_name(made[1].function) in ("stack", "cat"):
        made = value_maker(flow, made[1].inputs[0].tensor, made[0], through=_KEEPS - SHAPE_ONLY)
    return made is not None and plain_name(made[1].function) in _LAYERS


_LAYERS = frozenset({
    "linear", "addmm", "matmul", "conv1d", "conv2d", "conv3d", "layer_norm", "batch_norm", "tanh", "relu", "gelu",
    "baddbmm", "bmm", "normalize", "adaptive_avg_pool2d",
})  # fmt: skip


def _same_difference(flow: Dataflow, row: int, call: Call) -> tuple[int, int] | None:
    """The two results of which a call multiplies the difference with itself."""
    differences = set[frozenset[int]]()
    for use in call.inputs:
        made = value_maker(flow, use.tensor, row)
        if made is None or plain_name(made[1].function) != "sub" or len(made[1].live_inputs) != _BOTH:
            return None
        differences.add(frozenset(each.tensor for each in made[1].inputs))
    sides_of = differences.pop()
    if differences or len(sides_of) != _BOTH:
        return None
    first, second = sorted(sides_of)
    return first, second


def _is_normalized(flow: Dataflow, tensor: int, row: int) -> bool:
    made = value_maker(flow, tensor, row)
    return made is not None and plain_name(made[1].function) == "normalize"


def adds_data(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether the last thing that made one side was to add data to it, as of rewards."""
    made = value_maker(flow, tensor, row, through=_KEEPS - SHAPE_ONLY)
    if made is None:
        return False
    call = made[1]
    return plain_name(call.function) in ("add", "sub") and has_data(flow, call)
