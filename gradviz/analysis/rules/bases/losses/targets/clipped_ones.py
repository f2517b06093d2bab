"""Ratios of a value and itself, ``exp(new - new.detach())``, that are clipped while steps use the same draws."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from gradviz.analysis.dataflow.call_words import calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow

_BOTH = 2
_MIN_STEPS = 3
_MAX_ABOVE = 60
_MOST_USERS = 8
_CUTS = frozenset({"detach", "data"})
_CLIPS = frozenset({"clamp", "clip", "minimum", "maximum"})
_DRAWS = frozenset({"multinomial", "normal", "randn", "randn_like", "bernoulli", "_standard_normal"})


def clipped_ones(flow: Dataflow) -> Iterator[list[int]]:
    """The rows of ``exp()``, one list for each line of which all calls are so, in at least half of the steps with
    something that was drawn before an earlier step."""
    lines: dict[int | None, list[int]] = defaultdict(list)
    others = set[int | None]()
    for row, call in calls_named(flow, ("exp",)):
        if not call.live_inputs or call.inside is not None:
            continue
        if _is_of_itself(flow, row) and _is_clipped(flow, row):
            lines[call.call_site].append(row)
        else:
            others.add(call.call_site)
    for site, rows in lines.items():
        drawn = [_drawn_before(flow, row) for row in rows]
        again = sum(not one.isdisjoint(other) for one, other in pairwise(drawn))
        steps = {flow.step_before(row) for row in rows}
        if site not in others and len(steps) >= _MIN_STEPS and len(steps) == len(rows) and 2 * again >= len(rows):
            yield rows


def _is_of_itself(flow: Dataflow, row: int) -> bool:
    made = flow.newest_producer(flow.log.calls[row].inputs[0].tensor, row)
    call = None if made is None else flow.log.calls[made]
    if made is None or call is None or plain_name(call.function) != "sub" or len(call.inputs) != _BOTH:
        return False
    new, old = call.inputs
    cut = flow.newest_producer(old.tensor, made)
    is_cut = cut is not None and plain_name(flow.log.calls[cut].function) in _CUTS
    return is_cut and cut is not None and flow.log.calls[cut].inputs[0].tensor == new.tensor


def _is_clipped(flow: Dataflow, row: int) -> bool:
    users = flow.users(flow.log.calls[row].outputs[0].tensor, row)[:_MOST_USERS]
    return any(plain_name(flow.log.calls[user].function) in _CLIPS for user in users)


def _drawn_before(flow: Dataflow, row: int) -> set[int]:
    """The memory from which a value was computed since the last step, as far as it was drawn before that step."""
    since = flow.step_before(row)
    found, result = set[int](), flow.log.calls[row].outputs[0].tensor
    for each in flow.ancestors(result, row + 1, since=since):
        for use in flow.log.calls[each].inputs:
            first = flow.first_producer(use.tensor, row)
            is_old = not use.requires_grad and first is not None and first < since
            if is_old and flow.log.tensors[use.tensor].role == "tensor" and _is_drawn(flow, use.tensor, since):
                found.add(flow.memory_of(use.tensor))
    return found


def _is_drawn(flow: Dataflow, tensor: int, before: int) -> bool:
    makers = flow.makers_above(tensor, before, _MAX_ABOVE, lambda call: call.inputs)
    return any(plain_name(call.function) in _DRAWS for _, call in makers)
