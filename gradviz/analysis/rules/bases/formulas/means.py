"""Means over whole axes in any spelling: ``mean(1)``, ``adaptive_avg_pool1d(h, 1)``, ``avg_pool1d(h, length)``.

Sums that are divided by a number are no part of it: which number it is has to be read from the division.
"""

from __future__ import annotations

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.products import summed_axes
from gradviz.graph.call_log import Call, TensorUse

MEANS = frozenset({"mean", "nanmean"})
WITH_MEANS = frozenset({"mean", "std_mean", "var_mean"})
"""The calls that return a mean, some beside a deviation."""
POOLS = {f"{kind}avg_pool{rank}d": rank for kind in ("", "adaptive_") for rank in (1, 2, 3)}
"""The pooling calls that average, with the number of last axes along which each of them pools."""


def averaged_axes(flow: Dataflow, call: Call, use: TensorUse) -> frozenset[int] | None:
    """The axes of what a call takes that it averages as a whole; None for other calls, and for means of windows."""
    name, shape = plain_name(call.function), shape_of(flow, use.tensor)
    if name in MEANS:
        return summed_axes(call, use, len(shape))
    pooled = POOLS.get(name)
    if pooled is None or not call.outputs or use is not call.inputs[0]:
        return None
    made = shape_of(flow, call.outputs[0].tensor)
    is_whole = len(made) == len(shape) >= pooled and made[-pooled:] == (1,) * pooled
    return frozenset(range(len(shape) - pooled, len(shape))) if is_whole else None
