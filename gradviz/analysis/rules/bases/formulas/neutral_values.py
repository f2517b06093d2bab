"""Constants that leave trained values as they are: zeros that are added, ones that are multiplied."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

_MAX_CALLS = 20
_NEUTRAL = {"add": 0.0, "sub": 0.0, "mul": 1.0, "div": 1.0}
_ALL = {0.0: "it only adds zeros", 1.0: "it only multiplies by ones"}


def neutral_effect(flow: Dataflow, tensor: int, row: int) -> str | None:
    """If it, or what the program computes from it alone, leaves trained values as they are: ``it only adds zeros``."""
    waiting = [(tensor, row)]
    for _ in range(_MAX_CALLS):
        if not waiting:
            break
        taken, at = waiting.pop()
        call = flow.log.calls[at]
        use = next(each for each in call.inputs if each.tensor == taken)
        name, values = plain_name(call.function), flow.values_of(use, at)
        if call.kind != "operation" or values is None or not _is_on_own_line(flow, call):
            continue
        if call.live_inputs:
            neutral = _NEUTRAL.get(name)
            is_second = name in ("add", "mul") or (use.place == "1" and "__r" not in call.function)
            if neutral is not None and is_second and values.minimum == values.maximum == neutral:
                return _ALL[neutral]
        elif len(call.inputs) == 1:
            waiting += [(made.tensor, user) for made in call.outputs for user in flow.users(made.tensor, at)]
    return None


def _is_on_own_line(flow: Dataflow, call: Call) -> bool:
    """Whether the program wrote that operation itself: what a library computes with a constant may need one."""
    return call.call_site is not None and not flow.log.call_sites[call.call_site].is_library
