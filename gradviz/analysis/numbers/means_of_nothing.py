"""Calls that return NaN because they average no values: an empty selection, or targets that are all ignored."""

from __future__ import annotations

import re

from gradviz.analysis.dataflow.call_words import at_line, call_words, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.numbers.singularities import Singularity
from gradviz.graph.call_log import IGNORED_CLASS, Call, TensorUse

_MOST_CALLS = 64
"""Above the call, through which values that are none are followed."""
_WITH_IGNORED_CLASS = frozenset({"cross_entropy", "nll_loss", "nll_loss2d"})


def mean_of_nothing(flow: Dataflow, row: int) -> Singularity | None:
    """Why the call averages nothing; None if it does not."""
    call = flow.log.calls[row]
    if not any(use.values is not None and use.values.nans for use in call.outputs):
        return None
    is_mean = re.search("mean|std|var|loss|entropy", plain_name(call.function)) is not None
    if is_mean and call.inputs and _is_empty(flow, call.inputs[0]):
        return Singularity(
            f"its input has no values{_chosen_none(flow, row)}, and the mean of no values is 0/0",
            "leave out batches in which nothing is chosen: if len(x) == 0: continue; or divide a sum by a number "
            "that is at least 1: x.sum() / max(1, x.numel())",
            is_elementwise=False,
        )
    ignored = call.scalars.get("ignore_index", IGNORED_CLASS)
    if _ignores_all(flow, row, call, ignored):
        return Singularity(
            f"all its targets are {ignored}, which is its ignore_index, and the mean over no targets is 0/0",
            f"leave out batches without a target; or divide a sum by a number that is at least 1: "
            f'cross_entropy(..., reduction="sum") / (target != {ignored}).sum().clamp(min=1)',
            is_elementwise=False,
        )
    return None


def _is_empty(flow: Dataflow, use: TensorUse) -> bool:
    return 0 in flow.log.tensors[use.tensor].facts.shape


def _chosen_none(flow: Dataflow, row: int) -> str:
    """The call that made no values of some; nothing if the program began with none."""
    for _ in range(_MOST_CALLS):
        empty = next((use for use in flow.log.calls[row].inputs if _is_empty(flow, use)), None)
        if empty is None:
            return f": {call_words(flow.log.calls[row])}{at_line(flow.line_of(row))} chose none"
        made = flow.newest_producer(empty.tensor, row)
        if made is None:
            return ""
        row = made
    return ""


def _ignores_all(flow: Dataflow, row: int, call: Call, ignored: object) -> bool:
    if plain_name(call.function) not in _WITH_IGNORED_CLASS or len(call.inputs) < 2:
        return False
    targets = flow.values_of(call.inputs[1], row)
    return targets is not None and targets.minimum == targets.maximum == ignored
