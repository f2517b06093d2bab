"""Batches of several parts, such as episodes, of which each has one sample in all of its rows."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.batches.batch_lines import CARRY
from gradviz.graph.call_log import ValueFacts

_JOINS = frozenset({"stack", "cat", "concat", "concatenate", "vstack", "pad_sequence"})
_MAX_CARRYING = 8
_MIN_PARTS = 2


def joint_of_equal_parts(flow: Dataflow, tensor: int, before: int) -> int | None:
    """The call that put a batch together from parts, if the rows of each part are the same."""
    for row, call in flow.makers(tensor, before, _MAX_CARRYING):
        if plain_name(call.function) in _JOINS:
            values = [flow.values_of(use, row) for use in call.inputs]
            return row if len(values) >= _MIN_PARTS and all(map(_has_equal_rows, values)) else None
        if plain_name(call.function) not in CARRY:
            return None
    return None


def _has_equal_rows(values: ValueFacts | None) -> bool:
    return values is not None and values.equal_rows


def were_different(flow: Dataflow, row: int) -> bool:
    """Whether the tensors that a call put below each other, and that are the same now, had other values than each other
    before: they share a memory, in which something wrote that torch does not see."""
    call = flow.log.calls[row]
    if plain_name(call.function) not in _JOINS or not any(_has_equal_rows(use.values) for use in call.outputs):
        return False
    known = [flow.values_of(use, row) for use in call.inputs]
    return len({(values.minimum, values.maximum) for values in known if values is not None}) > 1
