"""How far a replay has come when a step is over: what has run, what is ready or waits, and what has arrived there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from gradviz.analysis.replay import Step
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.view import Item
from gradviz.rendering.replay_names import StepNames
from gradviz.rendering.replay_numbers import short_words
from gradviz.rendering.words import counted, listed

MOST_WAITING = 3
_LOOK_AHEAD = 200
"""So many of the steps that follow are asked whether they wait: one that comes later than these is only counted."""


class ReplayProgress:
    """Finds the words for what is done and what is not."""

    def __init__(self, names: StepNames) -> None:
        self._names, self._replay = names, names.replay

    def gradient_at(self, item: Item, at: int) -> str:
        """The gradient that has arrived at an item when the step `at` is over, in a word; ``9 + …`` where some of it
        is still to come."""
        if item.root is not None:
            return short_words([self._replay.graph.roots[item.root].gradient])
        number = self._turn_of(item, at)
        if number is None:
            return ""
        step, state = self._replay.step(number), self._replay.state_of_step(number, at)
        if state == "ahead":
            return ""
        if state != "waits":
            return short_words(self._arrived(step))
        come = step.arrived_by(at)
        words = short_words([step.entering[0].gradient]) if come == len(step.slots) == 1 else ""
        return f"{words} + …" if words else f"{come:,} of {len(step.entering):,}"

    def _turn_of(self, item: Item, at: int) -> int | None:
        """The step that tells how it stands with an item: of repetitions the last that ran, or the first."""
        numbers = self._replay.steps_of_item(item.id)
        return numbers[max(bisect_right(numbers, at) - 1, 0)] if numbers else None

    def _arrived(self, step: Step) -> list[TensorFigures | None]:
        """What arrived at a step, summed, one for each of its slots."""
        if not step.slots:
            return list(self._names.main_node(step).arrived)
        return [self._replay.arrived_at(slot) for slot in step.slots]

    def sentence(self, at: int) -> str:
        """``2 of 4 nodes have run; ready: x, y``."""
        replay = self._replay
        done, total = replay.nodes_done(at), replay.nodes_done(len(replay))
        verb = "have run" if replay.was_watched else "would have run"
        return "; ".join([f"{done:,} of {counted(total, 'node')} {verb}", *self._waiting(at)])

    def _waiting(self, at: int) -> Iterator[str]:
        ready: list[str] = []
        waits: list[str] = []
        near = range(at + 1, min(at + 1 + _LOOK_AHEAD, len(self._replay) + 1))
        for number in near:
            state = self._replay.state_of_step(number, at)
            if state == "ready":
                ready.append(self._names.short_name(self._replay.step(number)))
            elif state == "waits":
                step = self._replay.step(number)
                waits.append(f"{self._names.short_name(step)} ({step.arrived_by(at):,} of {len(step.entering):,})")
        if ready:
            yield f"ready: {listed(ready, MOST_WAITING)}"
        if waits:
            yield f"waiting for more: {listed(waits, MOST_WAITING)}"
        later = self._replay.waiting(at) - len(ready) - len(waits)
        if later:
            yield f"{later:,} {'wait' if later > 1 else 'waits'} further on"
