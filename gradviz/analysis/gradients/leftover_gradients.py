"""Gradients that a backward for another model left in parameters, and that the next step of their own optimizer uses.

A policy that is trained through a critic leaves gradients in the critic. They must be cleared before the critic's own
backward. Where a parameter is *before* what another optimizer trains, as a shared trunk is before its heads, the sum of
several losses is meant; where it is *behind* it, as a critic is behind the policy, it was only passed through.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, pairwise

from msgspec import Struct

from gradviz.analysis.gradients.gradient_events import Event, GradientEvents, used_together
from gradviz.analysis.gradients.gradients_of_players import Loss, goes_through, loss_of
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


class Opposed(Struct, frozen=True):
    """Steps that also use the gradients of a loss for another optimizer, which both losses go through."""

    tensors: tuple[int, ...]
    owner: int
    other: int
    """The optimizer that steps between both backward calls."""
    pairs: tuple[tuple[int, int], ...]
    """The backward that is for the other one, and the next one, for the owner."""


_Pair = tuple[int, int]
"""Two backward calls, one after the other, without a step or a clearing of the parameter between them."""
_MIN_TIMES = 2


def leftover_gradients(histories: ParameterHistories, events: GradientEvents) -> Iterator[Leftover]:
    """One for each optimizer that makes such steps regularly."""
    found: dict[int, dict[int, list[_Pair]]] = defaultdict(dict)
    for tensor, of_tensor in events.events.items():
        owners = histories.optimizers_of(tensor)
        if len(owners) == 1:
            mixed = _left_by_another(histories, tensor, owners[0], of_tensor)
            if mixed and len(mixed) >= max(_MIN_TIMES, _times_of_lines(histories, of_tensor, mixed) / 2):
                found[owners[0]][tensor] = mixed
    for by_tensor in found.values():
        tensor, mixed = next(iter(by_tensor.items()))
        backward, own = mixed[-1]
        before = [row for row, kind in events.events[tensor] if kind == "clear" and row < backward]
        clear = before[-1] if before else None
        yield Leftover(tuple(by_tensor), backward, own, max(len(each) for each in by_tensor.values()), clear)


def opposed_backwards(histories: ParameterHistories, events: GradientEvents) -> Iterator[Opposed]:
    """One for each two optimizers, where the first backward trains the other one, which the second one only passes."""
    found: dict[_Pair, dict[int, list[_Pair]]] = defaultdict(lambda: defaultdict(list))
    decided: dict[tuple[int, Loss, Loss], int | None] = {}
    for tensor, of_tensor in events.events.items() if len(histories.log.optimizers) > 1 else ():
        owners = histories.optimizers_of(tensor)
        for pair in _pairs(of_tensor) if len(owners) == 1 else ():
            key = owners[0], loss_of(histories, pair[0]), loss_of(histories, pair[1])
            if key not in decided:
                decided[key] = _trained_between(histories, events, tensor, pair)
            other = decided[key]
            if other is not None:
                found[owners[0], other][tensor].append(pair)
    for (owner, other), by_tensor in found.items():
        pairs = max(by_tensor.values(), key=len)
        if len(pairs) >= _MIN_TIMES:
            yield Opposed(tuple(by_tensor), owner, other, tuple(pairs))


def _trained_between(histories: ParameterHistories, events: GradientEvents, tensor: int, pair: _Pair) -> int | None:
    """The optimizer that uses the first of two gradients of what it has, and not the second one."""
    reached = [histories.reached_by.get(row, frozenset[int]()) for row in pair]
    for other in sorted(_steps_between(histories, pair)):
        theirs = histories.held_by(other)
        both = theirs & reached[0] & reached[1] & events.events.keys()
        if both and tensor not in theirs and not any(_is_used(events.events[each], pair[1]) for each in both):
            return other
    return None


def _is_used(events: list[tuple[int, Event]], backward: int) -> bool:
    """Whether a step uses the gradient of a backward before it is cleared."""
    later = events[bisect_right(events, (backward, "step")) :]
    return next((kind == "step" for _, kind in later if kind != "backward"), False)


def _left_by_another(
    histories: ParameterHistories, tensor: int, owner: int, events: list[tuple[int, Event]]
) -> list[_Pair]:
    """Where the first of two backward calls was for another optimizer; decided once for each pair of their losses."""
    decided, found = dict[tuple[Loss, Loss], bool](), []
    for mixed in _pairs(events):
        lines = loss_of(histories, mixed[0]), loss_of(histories, mixed[1])
        if lines not in decided:
            decided[lines] = _is_left_by_another(histories, tensor, owner, mixed)
        if decided[lines]:
            found.append(mixed)
    return found


def _times_of_lines(histories: ParameterHistories, events: list[tuple[int, Event]], mixed: list[_Pair]) -> int:
    """How often gradients of these losses came, and were used or cleared: a model may make many steps of its own for
    each of them."""
    lines = {loss_of(histories, first) for first, _ in mixed}
    times, has_some = 0, False
    for row, kind in events:
        if kind == "backward":
            has_some = has_some or loss_of(histories, row) in lines
        else:
            times += has_some
            has_some = False
    return times


def _pairs(events: list[tuple[int, Event]]) -> Iterator[_Pair]:
    """The backward calls that a step uses together, each with the next one."""
    return chain.from_iterable(map(pairwise, used_together(events)))


def _steps_between(histories: ParameterHistories, pair: _Pair) -> set[int]:
    """The optimizers that step between two backward calls."""
    calls, steps = histories.log.calls, histories.steps
    between = steps[bisect_right(steps, pair[0]) : bisect_right(steps, pair[1])]
    return {number for row in between if (number := calls[row].optimizer) is not None}


def _is_left_by_another(histories: ParameterHistories, tensor: int, owner: int, pair: _Pair) -> bool:
    """Whether the first backward was for another optimizer, whose parameters are before this one in its computation."""
    first, second = pair
    if loss_of(histories, first) == loss_of(histories, second) or _adds_up_over_parts(histories, owner, pair):
        return False
    others = _steps_between(histories, pair) - {owner}
    return any(_only_trained_through(histories, tensor, histories.held_by(other), first, second) for other in others)


def _adds_up_over_parts(histories: ParameterHistories, owner: int, pair: _Pair) -> bool:
    """Whether one line computes the gradients of several parts in turn and steps each, and another line then steps
    what all of them share, with the sum: a decoder behind several encoders."""
    calls, steps = histories.log.calls, histories.steps
    if calls[pair[0]].call_site != calls[pair[1]].call_site:
        return False
    between = {calls[row].call_site for row in steps[bisect_right(steps, pair[0]) : bisect_right(steps, pair[1])]}
    own = histories.steps_by_optimizer.get(owner, [])
    after = own[bisect_right(own, pair[1]) :][:1]
    return all(calls[row].call_site not in between for row in after)


def _only_trained_through(
    histories: ParameterHistories, tensor: int, theirs: frozenset[int], first: int, second: int
) -> bool:
    """Whether only the first backward trains others, through the parameter."""
    if tensor in theirs or theirs.isdisjoint(histories.reached_by[first]):
        return False
    if not theirs.isdisjoint(histories.reached_by.get(second, frozenset())):
        return False
    return goes_through(histories, tensor, theirs, first)
