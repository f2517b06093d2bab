"""Whether weights and targets were computed from rewards, as the names of a program say."""

from __future__ import annotations

import re

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.fits import Weight
from gradviz.analysis.rules.bases.losses.objectives import has_line_with
from gradviz.analysis.rules.bases.signed_terms import is_number_first, number_of

_REWARDS = re.compile(r"reward|return(?!_)|advantage|(?:^|[^a-z])(?:advs?|rews?|rets?|rtg|gains?)(?:$|[^a-z])", re.I)
_COSTS = re.compile("cost|loss|regret|energy|penalt|nll", re.I)
_TO_BE_SMALL = re.compile("tour|makespan|route|minimi[sz]|oppon|zero.?sum", re.I)
"""Words of programs whose rewards are lengths, or in which another player should get few of them."""
_MAX_MADE = 40
_KEEPS = frozenset({
    "add", "sub", "mul", "div", "neg", "getitem", "unbind", "stack", "cat", "view", "reshape", "squeeze", "unsqueeze",
    "float", "to", "detach", "clone", "flip", "cumsum", "flatten", "clamp", "expand",
})  # fmt: skip


def may_be_small(case: Case) -> bool:
    """Whether a program says that what it calls rewards should be small."""
    return has_line_with(case, _TO_BE_SMALL)


def is_of_rewards(case: Case, weight: Weight) -> bool:
    """Whether names say that a weight grows with rewards, and nothing says that it is a cost."""
    location = location_of_call(case.dataflow, weight.row)
    text = (case.source_line(location) or "").partition("#")[0]
    if weight.tensor is None:
        words = re.sub(r"\breturn\b|\w*loss\w*", "", text)
        return _REWARDS.search(words) is not None and _COSTS.search(words) is None
    return grows_with_rewards(case.dataflow, weight.tensor, weight.row)


def grows_with_rewards(flow: Dataflow, tensor: int, before: int, *, short: bool = False) -> bool:
    """Whether names say that a tensor was made of rewards, which nothing turned around, and of no costs.

    Args:
        short: take ``r`` for a reward, too.
    """
    named = _signed_names(flow, tensor, before)
    rewards = {sign for name, sign in named if _REWARDS.search(name) or (short and name in ("r", "R"))}
    return rewards == {1} and not any(_COSTS.search(name) for name, _ in named)


def _signed_names(flow: Dataflow, tensor: int, before: int) -> set[tuple[str, int]]:
    """The names of what a tensor was made of by sums and factors, with the sign with which it grows with each."""
    found: set[tuple[str, int]] = set()
    waiting, seen = [(tensor, before, 1)], set[tuple[int, int]]()
    while waiting and len(seen) < _MAX_MADE:
        made, until, sign = waiting.pop()
        if (made, sign) in seen:
            continue
        seen.add((made, sign))
        found.update((name, sign) for name in flow.log.tensors[made].names)
        row = flow.newest_producer(made, until)
        call = None if row is None else flow.log.calls[row]
        if row is None or call is None or plain_name(call.function) not in _KEEPS:
            continue
        name = plain_name(call.function)
        taken = call.inputs if name in ("add", "sub", "stack", "cat") else call.inputs[:1]
        for use in taken:
            is_first = is_number_first(call) and use.place == "0"
            turns = name == "neg" or (name == "sub" and (use.place in ("1", "other") or is_first))
            turns |= name in ("mul", "div") and number_of(call, "1", "other", missing=1.0) < 0
            waiting.append((use.tensor, row, -sign if turns else sign))
    return found
