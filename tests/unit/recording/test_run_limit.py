"""When a run is ended early."""

from __future__ import annotations

from gradviz.recording.run.recording_plan import RunLimits
from gradviz.recording.run.run_limit import RunLimit


class Run:
    """A run whose clock the test sets; a stop is noted and the run goes on."""

    def __init__(self, seconds: float | None = None, steps: int | None = None) -> None:
        self.now = 0.0
        self.stops = 0
        self.told: list[str] = []
        self.limit = RunLimit(RunLimits(seconds, steps), self._stop, self.told.append, lambda: self.now)

    def _stop(self) -> None:
        self.stops += 1


def test_a_step_is_one_of_an_optimizer_and_of_two_alternating_ones_each_counts_its_own() -> None:
    run, first, second = Run(steps=2), object(), object()
    run.limit.after_backward(1, has_optimizer=True)
    run.limit.after_step(first)
    run.limit.after_backward(2, has_optimizer=True)
    run.limit.after_step(second)
    assert not run.stops
    run.limit.after_step(first)
    assert (run.stops, run.limit.reason) == (1, "after 2 steps")


def test_without_an_optimizer_backward_calls_are_the_steps() -> None:
    run = Run(steps=1)
    run.limit.after_backward(1, has_optimizer=False)
    assert (run.stops, run.limit.reason) == (1, "after 1 step")


def test_time_is_counted_from_the_first_backward_and_ends_the_run_at_the_end_of_a_step() -> None:
    run = Run(seconds=60)
    run.now = 1000.0
    assert not run.limit.is_overdue()
    run.limit.before_backward()
    run.now += 61
    run.limit.before_backward()
    run.limit.after_backward(2, has_optimizer=True)
    assert not run.stops
    run.limit.after_step(object())
    assert (run.stops, run.limit.reason) == (1, "60 s past its first backward")


def test_a_step_that_does_not_end_is_interrupted() -> None:
    run = Run(seconds=60)
    run.limit.before_backward()
    run.now = 61.0
    assert not run.limit.is_overdue()
    run.now = 76.0
    assert run.limit.is_overdue()


def test_who_waits_is_told_once_how_long_it_may_take() -> None:
    run = Run(seconds=60)
    run.limit.before_backward()
    for run.now in (0.5, 2.0):
        run.limit.after_step(None)
    assert not run.told
    for run.now in (4.0, 5.0):
        run.limit.after_step(None)
    assert run.told == ["recording the script for up to 60 s (--seconds and --steps end it earlier)"]
    without = Run(steps=9)
    without.limit.before_backward()
    without.now = 10.0
    without.limit.after_step(None)
    assert not without.told
