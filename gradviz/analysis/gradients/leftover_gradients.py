"""Gradients that a backward for another model left in parameters, and that the next step of their own optimizer uses.

A policy that is trained through a critic leaves gradients in the critic. They must be cleared before the critic's own
backward. Where a parameter is *before* what another optimizer trains, as a shared trunk is before its heads, the sum of
several losses is meant; where it is *behind* it, as a critic is behind the policy, it was only passed through.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.gradients.gradient_events import Event, GradientEvents
from gradviz.analysis.parameters.parameter_histories import ParameterHistories


class Leftover(Struct, frozen=True):
    """Steps that use gradients which an earlier backward, for another optimizer, left behind."""

    tensors: tuple[int, ...]
    backward: int
    """The last backward that left them."""
    own: int
    """The backward after it whose gradients were added."""
    times: int
    """How many steps used both."""
    clear: int | None
    """What cleared the gradients before both."""


def leftover_gradients(histories: ParameterHistories, events: GradientEvents) -> Iterator[Leftover]:
    """One for each optimizer that makes such steps regularly."""
    found: dict[int, dict[int, list[tuple[int, int, int]]]] = defaultdict(dict)
    for tensor, of_tensor in events.events.items():
        owners = histories.optimizers_of(tensor)
        if len(owners) == 1:
            mixed = _left_by_another(histories, tensor, owners[0], of_tensor)
            if len(mixed) >= max(_MIN_TIMES, sum(kind == "step" for _, kind in of_tensor) / 2):
                found[owners[0]][tensor] = mixed
    for by_tensor in found.values():
        tensor, mixed = next(iter(by_tensor.items()))
        backward, own, _ = mixed[-1]
        before = [row for row, kind in events.events[tensor] if kind == "clear" and row < backward]
        clear = before[-1] if before else None
        yield Leftover(tuple(by_tensor), backward, own, max(len(each) for each in by_tensor.values()), clear)


_MIN_TIMES = 2


def _left_by_another(
    histories: ParameterHistories, tensor: int, owner: int, events: list[tuple[int, Event]]
) -> list[tuple[int, int, int]]:
    """Where the first of two backward calls was for another optimizer; decided once for each pair of their lines."""
    calls, decided, found = histories.log.calls, dict[tuple[int | None, int | None], bool](), []
    for mixed in _mixed(events):
        lines = calls[mixed[0]].call_site, calls[mixed[1]].call_site
        if lines not in decided:
            decided[lines] = _is_left_by_another(histories, tensor, owner, mixed)
        if decided[lines]:
            found.append(mixed)
    return found


def _mixed(events: list[tuple[int, Event]]) -> Iterator[tuple[int, int, int]]:
    """Two backward calls without a step or a clearing between them, and the step that follows."""
    for (first, a), (second, b), (third, c) in zip(events, events[1:], events[2:], strict=False):
        if (a, b, c) == ("backward", "backward", "step"):
            yield first, second, third


def _step_between(histories: ParameterHistories, mixed: tuple[int, int, int], owner: int) -> int | None:
    """The step of another optimizer between two backward calls."""
    calls = histories.log.calls
    between = (row for row in histories.steps if mixed[0] < row < mixed[1])
    return next((row for row in between if calls[row].optimizer != owner), None)


def _is_left_by_another(histories: ParameterHistories, tensor: int, owner: int, mixed: tuple[int, int, int]) -> bool:
    """Whether the first backward was for another optimizer, whose parameters are before this one in its computation."""
    calls, first = histories.log.calls, mixed[0]
    if calls[first].call_site == calls[mixed[1]].call_site:
        return False
    step = _step_between(histories, mixed, owner)
    theirs = {use.tensor for use in calls[step].inputs} if step is not None else set()
    if not theirs or tensor in theirs or theirs.isdisjoint(histories.reached_by[first]):
        return False
    if not theirs.isdisjoint(histories.reached_by.get(mixed[1], frozenset())):
        return False
    since = histories.flow.step_before(first)
    uses = [row for row in histories.forward_uses(tensor) if since <= row < first]
    for row in uses:
        inputs = [use.tensor for use in calls[row].inputs if use.has_grad_fn]
        if not theirs.isdisjoint(histories.live_leaves(inputs, row)[0]):
            return True
    return False
