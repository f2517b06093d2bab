"""Scores that are normalized over the samples of an evaluation: ``softmax(scores, 0).argmax(1) == labels``."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.evaluations.network_outputs import layer_behind
from gradviz.graph.call_log import Call

_BOTH = 2
_NORMALIZE = frozenset({"softmax", "log_softmax"})
_CHOOSE = frozenset({"argmax", "max", "topk"})
_COMPARE = frozenset({"eq", "ne"})


def choices_across_samples(flow: Dataflow) -> Iterator[tuple[int, int]]:
    """Of each line once, a softmax over the first axis of a layer's scores, and the call that chooses along the last
    axis of its result what is compared with labels."""
    told = set[int | None]()
    for row, call in calls_named(flow, _NORMALIZE):
        shape = shape_of(flow, call.inputs[0].tensor)
        if call.call_site in told or call.live_inputs or len(shape) != _BOTH or axis_of(call, _BOTH) != 0:
            continue
        chosen = _choice_that_is_scored(flow, row, call)
        # Products of two results are scores of pairs: a softmax over the queries corrects items that suit all.
        if chosen is not None and type(layer_behind(flow, call.inputs[0].tensor, row)) is int:
            told.add(call.call_site)
            yield row, chosen


def _choice_that_is_scored(flow: Dataflow, row: int, call: Call) -> int | None:
    for user in flow.users(call.outputs[0].tensor, row):
        choice = flow.log.calls[user]
        if plain_name(choice.function) not in _CHOOSE or axis_of(choice, _BOTH) != 1:
            continue
        compared = (each for use in choice.outputs for each in flow.users(use.tensor, user))
        if any(plain_name(flow.log.calls[each].function) in _COMPARE for each in compared):
            return user
    return None
