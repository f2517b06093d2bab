"""Whether a mean is then divided by another tensor."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

_BOTH = 2
_SCALES = frozenset({"mul", "div", "squeeze", "unsqueeze", "view", "reshape", "flatten", "getitem", "select"})
_MAX_SCALES = 4


def is_divided_later(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether the mean is then divided by a tensor, as by the part of the positions that count."""
    for _ in range(_MAX_SCALES):
        users = flow.users(call.outputs[0].tensor, row) if call.outputs else ()
        if len(users) != 1:
            return False
        row, call = users[0], flow.log.calls[users[0]]
        if plain_name(call.function) not in _SCALES:
            return False
        if len(call.inputs) == _BOTH and len(call.live_inputs) == 1:
            return True
    return False
