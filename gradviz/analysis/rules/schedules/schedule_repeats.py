"""GV719."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.tensor_words import optimizer_words
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.rates.rates_by_hand import line_that_counts
from gradviz.analysis.rules.bases.sources.rates.schedule_lines import (
    length_counts_epochs,
    line_that_steps_this,
    places_of_schedule,
)
from gradviz.analysis.sources.source_tree import tree_of
from gradviz.graph.call_log import LoggedOptimizer, RateTurn
from gradviz.graph.modules_and_schedules import Schedule


class ScheduleRepeats(Rule):
    """A cosine schedule of learning rates goes up again: it is stepped more often than its figures say.

    What it finds
    -------------
    A learning rate that changes at every step, falls to a tenth or less, and rises again along a cosine, twice or more:
    ``CosineAnnealingLR`` with ``T_max`` in epochs that is stepped for each batch, or ``cos(pi * progress)`` with a
    progress beyond 1. One rise is enough where the program says that ``T_max`` is its number of epochs: by its name, or
    in its loop over epochs. Restarts, which jump back, and schedules of one cycle or of straight lines are left alone.

    Why it matters
    --------------
    Behind ``T_max`` the cosine goes on: the learning rate climbs to its highest value, again and again, and what was
    learned at a low rate is lost each time.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    for epoch in range(4):
        for batch in range(6):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
            schedule.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    for epoch in range(4):
        for batch in range(6):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
        schedule.step()
    """

    code = "GV719"
    name = "schedule_repeats"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        for number, optimizer in enumerate(case.dataflow.log.optimizers):
            rises = _smooth_rises(optimizer)
            is_of_each_batch = optimizer.rate_changes >= _MOST * (optimizer.steps - 1)
            if rises >= _MIN_RISES and is_of_each_batch:
                yield self._finding(case, number, rises)
                continue
            for schedule in case.dataflow.log.schedules:
                if schedule.optimizer == number and _goes_too_far(case, schedule):
                    yield self._of_epochs(case, schedule)

    def _of_epochs(self, case: Case, schedule: Schedule) -> Finding:
        name = optimizer_words(case.dataflow.log.optimizers[schedule.optimizer])
        made = case.location_of_site(schedule.call_site)
        stepped = line_that_steps_this(case, made)
        return self.finding(
            f"{schedule.class_name} of {name} is made for {schedule.length:,} epochs, and stepped {schedule.moves:,} "
            f"times, at every batch: the learning rate falls within {schedule.length:,} batches and climbs back again",
            symptom="grad_wrong",
            why="a cosine goes up again behind its T_max",
            fix=_ONCE_IN_EACH_EPOCH,
            location=stepped or made,
            symptom_location=made if stepped not in (None, made) else None,
            evidence={"steps": schedule.optimizer_steps, "steps_down": schedule.length},
        )

    def _finding(self, case: Case, number: int, rises: int) -> Finding:
        optimizer = case.dataflow.log.optimizers[number]
        name = optimizer_words(optimizer)
        half = _half_period(optimizer.rate_turns)
        lowest, *_, highest = sorted(turn.rate for turn in optimizer.rate_turns)
        why, fix = _OF_SCHEDULE if case.dataflow.log.schedules else _BY_HAND
        return self.finding(
            f"the learning rate of {name} falls to {lowest:.3g} within {half:,} steps and climbs back to "
            f"{highest:.3g}, {rises:,} times in {optimizer.steps:,} steps",
            symptom="grad_wrong",
            why=why,
            fix=fix.format(steps=f"{optimizer.steps:,}"),
            evidence={"steps": optimizer.steps, "rises": rises, "steps_down": half},
            **_places(case, number),
        )


_ONCE_IN_EACH_EPOCH = (
    "step the schedule once in each epoch, or give it the number of all batches: T_max=epochs * len(loader)"
)
_OF_SCHEDULE = (
    "a cosine goes up again behind its T_max: the schedule is stepped for each batch, and T_max may count epochs",
    _ONCE_IN_EACH_EPOCH,
)
_BY_HAND = (
    "a cosine goes up again behind half its period: what is counted and what it is divided by differ, as batches and "
    "epochs do",
    "divide by the number of all that is counted, or count what it is divided by: {steps} steps",
)
_MIN_RISES = 2
_MOST = 0.9
_LOW = 0.12
"""The part of the highest rate that a schedule may end with; a tenth is usual."""
_MIN_STEPS_UP = 3
_BEND = 0.8
"""A cosine begins to rise with less than this part of its average rise; a straight line with all of it."""

_FEW_STEPS = 6
_BEND_OF_FEW = 0.93
"""Of a cosine that falls and rises within a few steps, the first step up is large, but less than that of a line."""
_MIN_TIMES = 1.5
"""A schedule that goes on for a few steps behind its end stays low."""


def _goes_too_far(case: Case, schedule: Schedule) -> bool:
    """Whether a cosine that is made for epochs is stepped at every step, far beyond its end."""
    length, moves = schedule.length, schedule.moves
    if schedule.class_name != "CosineAnnealingLR" or length is None or moves is None:
        return False
    is_beyond = moves >= max(length + _MIN_STEPS_UP, _MIN_TIMES * length)
    is_of_each_batch = _MOST * (schedule.optimizer_steps - 1) <= moves <= schedule.optimizer_steps + 1
    made = case.location_of_site(schedule.call_site)
    return is_beyond and is_of_each_batch and length_counts_epochs(case, made)


def _places(case: Case, optimizer: int) -> dict[str, Location | None]:
    """The places of the finding; where the program counts by itself what its rate depends on, the line that counts."""
    places = places_of_schedule(case, optimizer)
    written = places["location"]
    if written is None or case.dataflow.log.schedules:
        return places
    line = line_that_counts(tree_of(case.capture.sources.get(written.file, {})))
    return places if line is None else {"location": Location(written.file, line), "symptom_location": written}


def _smooth_rises(optimizer: LoggedOptimizer) -> int:
    """How often the learning rate rose from almost nothing along a cosine; the last time perhaps up to the end."""
    found = 0
    last = optimizer.learning_rates[0] if optimizer.learning_rates else None
    ends = [] if last is None else [RateTurn(optimizer.steps - 1, last, last)]
    turns = [*optimizer.rate_turns, *ends]
    for index, (low, high) in enumerate(itertools.pairwise(turns)):
        length, height = high.step - low.step, high.rate - low.rate
        if low.following <= low.rate or length < _MIN_STEPS_UP or low.rate > _LOW * high.rate:
            continue
        fall = low.step - turns[index - 1].step if index else low.step
        is_of_few_steps = length <= _FEW_STEPS and abs(fall - length) <= 1
        bend = _BEND_OF_FEW if is_of_few_steps else _BEND
        found += low.following - low.rate < bend * height / length
    return found


def _half_period(turns: tuple[RateTurn, ...]) -> int:
    return min(later.step - earlier.step for earlier, later in itertools.pairwise(turns))
