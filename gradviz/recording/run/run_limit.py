"""Ends a run early: after a number of steps, or a number of seconds after its first backward.

A step is one of an optimizer. If there are several, the optimizer with the most steps counts; if there is none, each
backward call is a step. A run ends at the end of a step, when gradients and parameters are as they are when a script
ends.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from gradviz.graph.number_words import counted
from gradviz.recording.run.recording_plan import RunLimits

PATIENCE = 0.25
"""A step is interrupted if it exceeds the time by this fraction."""

ANNOUNCED_AFTER = 3.0
"""Seconds after the first backward, when the user begins to wonder how long this takes."""


class RunLimit:
    """Gets backward calls, steps and torch calls; calls `stop`, each time, once the run is to end."""

    def __init__(
        self,
        limits: RunLimits,
        stop: Callable[[], None],
        announce: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._stop = stop
        self._announce = announce
        self._is_announced = limits.seconds is None
        self._clock = clock
        self._began: float | None = None
        self._overdue: float | None = None
        """The time from which on a step is interrupted; asked at every torch call."""
        self._steps: Counter[int] = Counter()
        self.reason: str | None = None
        """Why the run ended: ``after 3 steps``."""

    def before_backward(self) -> None:
        """The clock starts at the first backward."""
        if self._began is None:
            self._began = self._clock()
            if self._limits.seconds is not None:
                self._overdue = self._began + self._limits.seconds * (1 + PATIENCE)

    def after_backward(self, calls: int, *, has_optimizer: bool) -> None:
        """A backward call has ended, number `calls`."""
        if not has_optimizer:
            self._end_of_step(calls)

    def after_step(self, optimizer: object) -> None:
        """An optimizer has stepped."""
        self._steps[id(optimizer)] += 1
        self._end_of_step(max(self._steps.values()))

    def is_overdue(self) -> bool:
        """Whether a step has gone on too long after the time was up."""
        return self._overdue is not None and self._clock() > self._overdue

    def break_off(self) -> None:
        """End the run in the middle of a step."""
        self._end(self._time_is_up())

    def _end_of_step(self, steps: int) -> None:
        max_steps = self._limits.steps
        if max_steps is not None and steps >= max_steps:
            self._end(f"after {counted(steps, 'step')}")
        elif self._limits.seconds is not None and self._has_run_for(self._limits.seconds):
            self._end(self._time_is_up())
        elif not self._is_announced and self._has_run_for(ANNOUNCED_AFTER):
            self._is_announced = True
            self._announce(
                f"recording the script for up to {self._limits.seconds:g} s (--seconds and --steps end it earlier)"
            )

    def _has_run_for(self, seconds: float) -> bool:
        return self._began is not None and self._clock() - self._began > seconds

    def _time_is_up(self) -> str:
        return f"{self._limits.seconds:g} s past its first backward"

    def _end(self, reason: str) -> None:
        self.reason = reason
        self._stop()
