"""Steps of one optimizer that also use the gradients of the loss of another, because both losses run before both steps.

A discriminator's loss detaches what the generator made, so the two are to be trained apart. The generator's loss goes
through the discriminator, and leaves gradients there. They are harmless if the discriminator steps before, or if its
gradients are cleared before its own loss; else its step follows the sum of two losses with opposite aims. It is the
same with a critic that learns from stored actions, and an actor whose loss is what the critic says of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.gradients.gradient_events import Event, GradientEvents
from gradviz.analysis.gradients.plain_results import trains_through
from gradviz.analysis.parameters.parameter_histories import ParameterHistories


class PlayersMixed(Struct, frozen=True):
    """Steps that use the gradients of two losses, which a cut keeps apart elsewhere."""

    tensors: tuple[int, ...]
    own: int
    """The last backward of their own loss."""
    passing: int
    """The backward of the other loss in the same step, which only went through them."""
    times: int
    """How many steps used both."""


Loss = tuple[int | None, frozenset[int]]
"""The place of a backward call, and the leaves that it reaches: one line may call it for several losses."""
_Pair = tuple[int, int]
"""The backward of the own loss, and the one that went through the parameter."""
_MIN_TIMES = 2
_MAX_BACKWARDS = 6


def loss_of(histories: ParameterHistories, backward: int) -> Loss:
    """Which of the losses of a program a backward call is for."""
    return histories.log.calls[backward].call_site, histories.reached_by.get(backward, frozenset())


def players_mixed(histories: ParameterHistories, events: GradientEvents) -> Iterator[PlayersMixed]:
    """One for each optimizer that makes such steps regularly."""
    found: dict[int, dict[int, list[_Pair]]] = defaultdict(dict)
    decided: dict[tuple[int, Loss, Loss], bool] = {}
    for tensor, of_tensor in events.events.items() if len(histories.log.optimizers) > 1 else ():
        owners = histories.optimizers_of(tensor)
        if len(owners) != 1:
            continue
        mixed = list(_mixed_pairs(histories, tensor, owners[0], of_tensor, decided))
        if len(mixed) >= max(_MIN_TIMES, sum(kind == "step" for _, kind in of_tensor) / 2):
            found[owners[0]][tensor] = mixed
    for by_tensor in found.values():
        mixed = next(iter(by_tensor.values()))
        yield PlayersMixed(tuple(by_tensor), *mixed[-1], len(mixed))


def _mixed_pairs(
    histories: ParameterHistories,
    tensor: int,
    owner: int,
    events: list[tuple[int, Event]],
    decided: dict[tuple[int, Loss, Loss], bool],
) -> Iterator[_Pair]:
    """One for each step of a parameter that uses both; decided once for each optimizer and pair of losses."""
    for rows in _used_together(events):
        for own, passing in ((one, other) for one in rows for other in rows):
            losses = loss_of(histories, own), loss_of(histories, passing)
            if losses[0] == losses[1]:
                continue
            key = owner, *losses
            if key not in decided:
                decided[key] = _is_mixed(histories, tensor, owner, own, passing)
            if decided[key]:
                yield own, passing
                break


def _used_together(events: list[tuple[int, Event]]) -> Iterator[list[int]]:
    """The backward calls between two steps or clearings, where a step follows."""
    rows: list[int] = []
    for row, kind in events:
        if kind == "backward":
            rows.append(row)
            continue
        if kind == "step" and 1 < len(rows) <= _MAX_BACKWARDS:
            yield rows
        rows = []


def _is_mixed(histories: ParameterHistories, tensor: int, owner: int, own: int, passing: int) -> bool:
    """Whether the second backward trains what another optimizer has, through the parameter; and the first one was cut
    off from that, or the second one only asks for more or less of what the parameter computes."""
    reached = histories.reached_by.get(passing, frozenset())
    kept_apart = histories.reached_by.get(own, frozenset())
    for other in step_together(histories, max(own, passing)) - {owner}:
        theirs = histories.held_by(other)
        is_apart = tensor not in theirs and theirs.isdisjoint(kept_apart) and not theirs.isdisjoint(reached)
        if is_apart and goes_through(histories, tensor, theirs, passing):
            mine = histories.held_by(owner)
            if _is_cut_from(histories, own, theirs) or trains_through(histories, passing, mine, theirs):
                return True
    return False


def step_together(histories: ParameterHistories, after: int) -> set[int]:
    """The optimizers that step next after a backward call, before one that follows them."""
    backwards, calls = histories.backward_calls, histories.log.calls
    steps = histories.steps[bisect_right(histories.steps, after) :]
    index = bisect_right(backwards, steps[0]) if steps else len(backwards)
    end = backwards[index] if index < len(backwards) else len(calls)
    found = set[int]()
    for row in steps:
        if row > end:
            break
        number = calls[row].optimizer
        found |= set() if number is None else {number}
    return found


def goes_through(histories: ParameterHistories, tensor: int, theirs: frozenset[int], backward: int) -> bool:
    """Whether the parameter is used on what the others computed."""
    calls, since = histories.log.calls, histories.flow.step_before(backward)
    for row in histories.forward_uses(tensor):
        if since <= row < backward:
            inputs = [use.tensor for use in calls[row].inputs if use.has_grad_fn]
            if not theirs.isdisjoint(histories.live_leaves(inputs, row)[0]):
                return True
    return False


def _is_cut_from(histories: ParameterHistories, backward: int, theirs: frozenset[int]) -> bool:
    """Whether a loss uses what the others computed, without its history."""
    flow = histories.flow
    for root in flow.log.calls[backward].roots:
        for cut in flow.cuts_reaching(root.tensor, backward, flow.step_before(backward)):
            leaves = histories.live_leaves(cut.live_inputs, cut.call)[0].union(cut.live_inputs)
            if not theirs.isdisjoint(leaves):
                return True
    return False
