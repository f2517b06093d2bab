"""Values of each sample, such as its mean, that reductions over all of its other axes have made."""

from __future__ import annotations

from gradviz.analysis.dataflow.axes import REDUCTIONS, axes_of
from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow

_REDUCES = REDUCTIONS | {"std_mean", "var_mean", "nanmean", "vector_norm", "linalg_norm", "quantile", "nanmedian"}
_FLATTENS = frozenset({"flatten", "view", "reshape", "squeeze", "abs"}) | {
    "sqrt", "rsqrt", "sub", "add", "mul", "div", "exp", "log", "pow", "neg", "square", "to", "float",
}  # fmt: skip
_MAX_FOLLOWED = 8


def is_reduced_to_samples(flow: Dataflow, made: int, shape: Shape, long: int, row: int) -> bool:
    """Whether a call reduces a tensor to one value for each of its samples, over all other axes, perhaps in several
    steps, and that tensor is the same that now meets these values, or what it was computed from."""
    since, has_reduced = flow.step_before(row), False
    sources = {long} | {use.tensor for each in flow.ancestors(long, row, since) for use in flow.log.calls[each].inputs}
    at: int | None = made
    for _ in range(_MAX_FOLLOWED):
        call = None if at is None else flow.log.calls[at]
        if call is None or at is None or not call.inputs:
            return False
        given, name = call.inputs[0].tensor, plain_name(call.function)
        before = shape_of(flow, given)
        if name in _REDUCES:
            axes = axes_of(call, len(before))
            has_reduced = True
            if not axes or 0 in axes:
                return False
        elif name not in _FLATTENS or before[:1] != shape[:1]:
            return False
        if before == shape and has_reduced and given in sources:
            return True
        at = flow.newest_producer(given, at)
    return False
