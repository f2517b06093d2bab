"""Steps of two optimizers after one backward of both losses, where one also goes through what the other one trains.

``(loss_of_critic + loss_of_actor).backward()``.

The loss of the actor leaves gradients in the critic, and no ``zero_grad()`` can take them away there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.reached_calls import reached_by
from gradviz.analysis.gradients.gradients_of_players import PlayersMixed, step_together
from gradviz.analysis.gradients.plain_results import trains_through
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call, TensorUse

_JOINS = frozenset({"cat", "concat", "stack", "hstack"})
_MIN_TIMES = 2
_MAX_USES = 12
_MAX_OPTIMIZERS = 6


def players_of_one_backward(histories: ParameterHistories) -> Iterator[PlayersMixed]:
    """One for each optimizer whose parameters get both, by the last two backward calls of each line."""
    lines: dict[int | None, list[int]] = defaultdict(list)
    for row in histories.backward_calls if len(histories.log.optimizers) > 1 else ():
        lines[histories.log.calls[row].call_site].append(row)
    for rows in lines.values():
        found = [dict(_mixed_at(histories, row)) for row in rows[-_MIN_TIMES:]]
        if len(found) == _MIN_TIMES:
            for owner in found[0].keys() & found[1].keys():
                yield PlayersMixed(tuple(sorted(found[1][owner])), rows[-1], rows[-1], len(rows))


def _mixed_at(histories: ParameterHistories, backward: int) -> Iterator[tuple[int, frozenset[int]]]:
    """The optimizers of which a backward trains parameters in both ways, and these parameters."""
    together = step_together(histories, backward)
    reached = histories.reached_by.get(backward, frozenset())
    held = {each: histories.held_by(each) & reached for each in sorted(together)}
    held = {each: tensors for each, tensors in held.items() if tensors}
    for owner, mine in held.items() if 1 < len(held) <= _MAX_OPTIMIZERS else ():
        theirs = [tensors for other, tensors in held.items() if other != owner and tensors.isdisjoint(mine)]
        if any(_is_mixed(histories, backward, mine, each) for each in theirs):
            yield owner, mine


def _is_mixed(histories: ParameterHistories, backward: int, mine: frozenset[int], theirs: frozenset[int]) -> bool:
    calls, flow = histories.log.calls, histories.flow
    since, members = flow.step_before(backward), reached_by(flow, backward).members
    for tensor in sorted(mine):
        rows = [row for row in histories.forward_uses(tensor, since) if row in members and _trains(calls[row], tensor)]
        through, apart = list[int](), list[int]()
        for row in rows[:_MAX_USES]:
            given = [use.tensor for use in calls[row].inputs if use.has_grad_fn]
            is_through = not theirs.isdisjoint(histories.live_leaves(given, row)[0])
            (through if is_through else apart).append(row)
        if not through or not apart:
            continue
        if _have_same_values(histories, through, apart):
            return True
        return trains_through(histories, backward, mine, theirs)
    return False


def _trains(call: Call, tensor: int) -> bool:
    return any(use.tensor == tensor and use.requires_grad for use in call.inputs)


def _have_same_values(histories: ParameterHistories, through: list[int], apart: list[int]) -> bool:
    """Whether one of these calls gets, cut off, what another one gets with its history."""
    live = {use.tensor for row in through for use in _given(histories, row) if use.has_grad_fn}
    cut = {use.tensor for row in apart for use in _given(histories, row) if not use.requires_grad}
    storages = {histories.tensor(each).storage for each in live} & {histories.tensor(each).storage for each in cut}
    return bool(storages - {None})


def _given(histories: ParameterHistories, row: int) -> Iterator[TensorUse]:
    """The inputs of a call, and those of which ``cat()`` made them."""
    flow = histories.flow
    for use in histories.log.calls[row].inputs:
        yield use
        made = flow.newest_producer(use.tensor, row)
        if made is not None and plain_name(flow.log.calls[made].function) in _JOINS:
            yield from flow.log.calls[made].inputs
