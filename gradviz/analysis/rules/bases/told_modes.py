"""Whether a dropout knows the mode of its module, by the text of the line that calls it; models that get an input
again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import drops_attention, is_training
from gradviz.analysis.finding import Location
from gradviz.graph.traversal import scopes_around


def asks_for_the_mode(case: Case, row: int, beside: Iterable[int]) -> bool:
    """Whether a call in a module of torch itself, or one whose text mentions it, knows the mode of its module.

    Args:
        beside: the calls in the same call of the model.
    """
    flow = case.dataflow
    calls = flow.log.calls
    here, scope = location_of_call(flow, row), calls[row].scope
    if here is None or scope is None or "dropout" in flow.log.scopes[scope].class_name.lower():
        return True
    text = _statement(case, here)
    if "train" in text:
        return True
    if not drops_attention(calls[row]):
        return "dropout" not in (case.source_line(here) or "")
    if re.search("scaled_dot_product_attention|dropout", text) is None:
        return True
    if re.search(r"dropout_p\s*=\s*(\d|\w+\.)", text):
        return False
    # A variable may have been chosen by the mode: others in the model show it.
    return not any(is_training(calls[each]) is False for each in beside)


_MAX_LINES = 6


def _statement(case: Case, here: Location) -> str:
    """The text from a line up to that on which as many parentheses are closed as opened."""
    text = ""
    for below in range(_MAX_LINES):
        text += case.source_line(Location(here.file, here.line + below)) or ""
        if text.count("(") <= text.count(")"):
            break
    return text


def gets_input_again(flow: Dataflow, outermost: int, members: Sequence[int], among: range | None = None) -> bool:
    """Whether the model gets the same input again, as averages over dropout do; perhaps only among some calls,
    of which those without gradients count."""
    path = flow.log.scopes[outermost].path
    # A model may begin with a call that reads nothing, as `arange()` for its positions.
    read = next((flow.log.calls[each].inputs[0].tensor for each in members if flow.log.calls[each].inputs), None)
    users = [
        user
        for user in (flow.users(read) if read is not None else ())
        if among is None or (user in among and flow.log.calls[user].grad_mode != "enabled")
    ]
    scopes = (flow.log.calls[user].scope for user in users)
    outer = {list(scopes_around(flow.log.scopes, scope))[-1] for scope in scopes if scope is not None}
    return sum(flow.log.scopes[each].path == path for each in outer) > 1
