"""GV735."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.tensor_words import optimizer_words
from gradviz.analysis.finding import Finding, Location
from gradviz.analysis.rule import Rule
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.rules.bases.sources.rates.numbers_of_batches import (
    length_counts_batches,
    line_that_counts_batches,
)
from gradviz.analysis.rules.bases.sources.rates.rates_by_hand import rates_for_epochs
from gradviz.analysis.rules.bases.sources.rates.schedule_lines import line_that_steps_this
from gradviz.analysis.sources.source_tree import tree_of
from gradviz.graph.call_log import LoggedOptimizer
from gradviz.graph.modules_and_schedules import Schedule


class ScheduleCountsBatches(Rule):
    """A schedule of learning rates that is made for all batches is stepped once in each epoch.

    What it finds
    -------------
    ``OneCycleLR``, ``CosineAnnealingLR``, ``LinearLR`` and ``PolynomialLR`` whose length (``total_steps``, ``T_max``,
    ``total_iters``) is the number of steps that their optimizer makes, but which are stepped at a third of them or
    fewer, in a program that ran to its end; and schedules whose length, milestones or function the program computes
    with its number of batches in an epoch, also rates that it sets itself; and those that are made for the number of
    backward calls, of which several make one step, also where the functions of ``LambdaLR`` hold that number, or that
    of all steps, or several in ``SequentialLR`` come to it together. A schedule of another length is left alone: it may
    be meant for a longer training.

    Why it matters
    --------------
    The learning rate hardly leaves the beginning of its schedule: a cycle stays in its warm-up, and a decay never
    comes.

    Example
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3 * 6)
    for epoch in range(3):
        for batch in range(6):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
        schedule.step()

    Instead
    -------
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3 * 6)
    for epoch in range(3):
        for batch in range(6):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
            schedule.step()
    """

    code = "GV735"
    name = "schedule_counts_batches"
    severity = "warning"

    def check(self, case: Case) -> Iterator[Finding]:
        if case.capture.outcome != "finished" or case.capture.error is not None:
            return
        told = set[int]()
        for schedule in case.dataflow.log.schedules:
            is_candidate = schedule.optimizer not in told and _is_seldom_stepped(case, schedule)
            is_of_steps = is_candidate and (_is_for_all_steps(schedule) or _holds_all_steps(case, schedule))
            if is_candidate and (is_of_steps or _is_of_batches(case, schedule)):
                told.add(schedule.optimizer)
                yield self._finding(case, schedule)
            elif schedule.optimizer not in told and (calls := _backwards_it_counts(case, schedule)):
                told.add(schedule.optimizer)
                yield self._of_accumulated(case, schedule, calls, schedule.length or calls)
        for parts in _successions(case.dataflow.log.schedules):
            calls = _backwards_they_count(case, parts) if parts[0].optimizer not in told else None
            if calls is not None:
                longest = max(parts, key=lambda each: each.length or 0)
                yield self._of_accumulated(case, longest, calls, _whole_length(parts))
        with_schedule = {schedule.optimizer for schedule in case.dataflow.log.schedules}
        for number, optimizer in enumerate(case.dataflow.log.optimizers):
            location = _set_by_hand(case, optimizer) if number not in with_schedule else None
            if location is not None:
                yield self._by_hand(optimizer, location)
                return

    def _of_accumulated(self, case: Case, schedule: Schedule, calls: int, length: int) -> Finding:
        optimizer = case.dataflow.log.optimizers[schedule.optimizer]
        each = round(calls / schedule.optimizer_steps)
        made, counted = case.location_of_site(schedule.call_site), _line_that_counts(case, schedule)
        return self.finding(
            f"{schedule.class_name} of {optimizer_words(optimizer)} is made for {length:,} steps, as "
            f"many as there are backward calls, but the optimizer makes {schedule.optimizer_steps:,}, one for {each:,} "
            f"of them{_rates(optimizer)}",
            symptom="grad_wrong",
            why="its length counts batches, and the gradients of several batches are added up for each step",
            fix=f"make it for the steps: divide the number of batches by the {each:,} batches of a step",
            location=counted or made,
            symptom_location=made if counted not in (None, made) else None,
            evidence={"length": length, "steps": schedule.optimizer_steps, "backward_calls": calls},
        )

    def _by_hand(self, optimizer: LoggedOptimizer, location: Location) -> Finding:
        return self.finding(
            "the learning rate that is set here is computed with the number of batches, but "
            f"{optimizer_words(optimizer)} makes {optimizer.steps:,} steps with {optimizer.rate_changes + 1:,} rates"
            f"{_rates(optimizer)}",
            symptom="grad_wrong",
            why="its length counts batches, and it is asked once for each epoch",
            fix="set the rate before each step, in the loop over batches, or compute it with the number of epochs",
            location=location,
            evidence={"rates": optimizer.rate_changes + 1, "steps": optimizer.steps},
        )

    def _finding(self, case: Case, schedule: Schedule) -> Finding:
        optimizer = case.dataflow.log.optimizers[schedule.optimizer]
        made = case.location_of_site(schedule.call_site)
        stepped = line_that_steps_this(case, made)
        return self.finding(
            f"{schedule.class_name} of {optimizer_words(optimizer)} {_made_for(schedule)}, but is stepped "
            f"{schedule.moves:,} times while the optimizer makes {schedule.optimizer_steps:,}{_rates(optimizer)}",
            symptom="grad_wrong",
            why="its length counts batches, and it is stepped once for each epoch",
            fix=f"step the schedule behind each {optimizer_words(optimizer)}.step(), or give it the number of epochs",
            location=stepped or made,
            symptom_location=made if stepped not in (None, made) else None,
            evidence={"length": schedule.length, "moves": schedule.moves, "steps": schedule.optimizer_steps},
        )


_MADE_FOR_A_LENGTH = frozenset({"OneCycleLR", "CosineAnnealingLR", "LinearLR", "PolynomialLR"})
_STEPS_OF_EACH_MOVE = 3
_MIN_MOVES = 2
_MOST_FALLEN = 0.5
"""What is left of a rate, as a part of the first: one that is asked once for each of three batches goes a third of its
way, on which a cosine loses a quarter."""
_MAX_DIFFERENCE = 0.1
"""Between the length and the steps: a last batch that is left out, a warm-up before it."""


def _set_by_hand(case: Case, optimizer: LoggedOptimizer) -> Location | None:
    """The line that takes a rate which counts batches, if the optimizer changes its rate far less often than it
    steps."""
    changes = optimizer.rate_changes
    if not changes or (changes + 1) * _STEPS_OF_EACH_MOVE > optimizer.steps:
        return None
    first, last = optimizer.first_rate, next(iter(optimizer.learning_rates), None)
    if first is not None and last is not None and last < first * _MOST_FALLEN:
        return None  # It has come far: it was asked as often as it counts.
    found = [Location(file, line) for file, tree in own_files(case) for line in rates_for_epochs(tree)]
    return found[0] if len(found) == 1 else None


def _rates(optimizer: LoggedOptimizer) -> str:
    rates = [rate for rate in (optimizer.first_rate, *optimizer.learning_rates[:1]) if rate is not None]
    return f": the learning rate begins at {rates[0]:.3g} and ends at {rates[1]:.3g}" if len(rates) > 1 else ""


def _made_for(schedule: Schedule) -> str:
    return "counts batches" if schedule.length is None else f"is made for {schedule.length:,} steps"


def _is_seldom_stepped(case: Case, schedule: Schedule) -> bool:
    """Whether it is stepped far less often than its optimizer, and has not come to its end."""
    moves, steps = schedule.moves, schedule.optimizer_steps
    of_all = [each.moves or 0 for each in case.dataflow.log.schedules if each.optimizer == schedule.optimizer]
    left = _LEFT_TO_NEXT if sum(of_all) > steps / _STEPS_OF_EACH_MOVE else 0
    if moves is None or moves > steps / _STEPS_OF_EACH_MOVE or moves + left >= (schedule.length or steps):
        return False
    return moves + (not schedule.is_alive) >= _MIN_MOVES  # The last move of one that is gone was not seen.


_LEFT_TO_NEXT = 1
"""The last move of a schedule is left out by ``SequentialLR``, which steps the next one there."""


def _is_for_all_steps(schedule: Schedule) -> bool:
    """Whether it is made for about as many steps as its optimizer makes."""
    length, steps = schedule.length, schedule.optimizer_steps
    is_of_length = schedule.class_name in _MADE_FOR_A_LENGTH and length is not None
    return is_of_length and abs((length or 0) - steps) <= _MAX_DIFFERENCE * steps


def _holds_all_steps(case: Case, schedule: Schedule) -> bool:
    """Whether the functions of a schedule hold the number of all steps that its optimizer makes, not that of its own
    moves, and its rate has not come to an end."""
    steps, held = schedule.optimizer_steps, schedule.held_counts
    own = range((schedule.moves or 0) - 1, (schedule.moves or 0) + _STEPS_OF_EACH_MOVE)
    is_held = steps >= _FEWEST_STEPS and steps in held and not any(each in held for each in own)
    optimizer = case.dataflow.log.optimizers[schedule.optimizer]
    rates = optimizer.first_rate, next(iter(optimizer.learning_rates), None)
    is_rising = rates[0] is not None and rates[1] is not None and rates[0] < rates[1]  # a warm-up, of which GV723 tells
    return is_held and not is_rising and not _has_ended(optimizer) and not _is_a_power(case, schedule)


_FEWEST_STEPS = 12
"""A smaller number may be one of something else."""


def _backwards_it_counts(case: Case, schedule: Schedule) -> int | None:
    """How many backward calls a schedule was made for, that is stepped with its optimizer, once for several of them."""
    moves, steps, calls = schedule.moves, schedule.optimizer_steps, _backwards_of(case, schedule.optimizer)
    is_stepped_with_it = moves is not None and steps >= _MIN_MOVES and abs(moves - steps) <= 1
    if not is_stepped_with_it or calls < _TWICE * steps:
        return None
    is_of_length = schedule.class_name in _MADE_FOR_A_LENGTH and _is_about(schedule.length or 0, calls)
    is_held = _holds(schedule, calls, case.dataflow.log.optimizers[schedule.optimizer])
    line = case.location_of_site(schedule.call_site)
    alike = (each for each in case.dataflow.log.schedules if case.location_of_site(each.call_site) == line)
    if any((each.moves or 0) + 1 >= calls for each in alike):
        return None  # Another one of this line has come as far: this one was left before its end.
    return calls if is_of_length or (is_held and not _is_a_power(case, schedule)) else None


def _backwards_they_count(case: Case, parts: tuple[Schedule, ...]) -> int | None:
    """The same for schedules that follow one another, as in ``SequentialLR``: each is stepped where the one before
    ends, so that all together move as often as their optimizer steps."""
    steps, calls = parts[0].optimizer_steps, _backwards_of(case, parts[0].optimizer)
    moves = sum(each.moves or 0 for each in parts)
    is_stepped_with_it = steps >= _MIN_MOVES * len(parts) and abs(moves - steps) <= len(parts)
    is_of_calls = calls >= _TWICE * steps and _is_about(_whole_length(parts), calls)
    return calls if is_stepped_with_it and is_of_calls else None


def _successions(schedules: tuple[Schedule, ...]) -> Iterator[tuple[Schedule, ...]]:
    """Of each optimizer, all its schedules, if these are several that are made for a length."""
    by_optimizer: dict[int, list[Schedule]] = {}
    for schedule in schedules:
        by_optimizer.setdefault(schedule.optimizer, []).append(schedule)
    for parts in by_optimizer.values():
        if len(parts) > 1 and all(each.class_name in _MADE_FOR_A_LENGTH and each.length for each in parts):
            yield tuple(parts)


def _whole_length(parts: tuple[Schedule, ...]) -> int:
    return sum(each.length or 0 for each in parts)


def _backwards_of(case: Case, optimizer: int) -> int:
    """How many backward calls give gradients to what an optimizer steps on."""
    held = case.histories.held_by(optimizer)
    return sum(not held.isdisjoint(reached) for reached in case.histories.reached_by.values())


def _is_about(length: int, calls: int) -> bool:
    return abs(length - calls) <= _MAX_DIFFERENCE * calls / _STEPS_OF_EACH_MOVE


def _is_a_power(case: Case, schedule: Schedule) -> bool:
    """Whether the file that makes it computes a power of the step, in which a number is a half-life or the like."""
    made = case.location_of_site(schedule.call_site)
    lines = case.capture.sources.get(made.file, {}).values() if made is not None else ()
    return any(_POWER.search(line) for line in lines)


_POWER = re.compile(r"\*\*.*\b(step|epoch|i|t|n|s)\b|\bexp\(.*\b(step|epoch|i|t|n|s)\b|\bpow\(")


def _holds(schedule: Schedule, calls: int, optimizer: LoggedOptimizer) -> bool:
    """Whether the functions of a schedule hold this number, and nothing that makes steps of it; and its rate has not
    come to an end."""
    steps, held = schedule.optimizer_steps, schedule.held_counts
    is_converted = any(each in held for each in (steps, calls // steps, calls // steps + 1))
    return calls in held and not is_converted and not _has_ended(optimizer)


def _has_ended(optimizer: LoggedOptimizer) -> bool:
    """Whether little is left of a rate."""
    rates = [rate for rate in (*optimizer.highest_rates[:1], *optimizer.learning_rates[:1]) if rate is not None]
    return len(rates) == _FIRST_AND_LAST and rates[1] < rates[0] * _LEAST_LEFT


_FIRST_AND_LAST = 2
_LEAST_LEFT = 0.2


_TWICE = 2


def _line_that_counts(case: Case, schedule: Schedule) -> Location | None:
    """The line that computes its length with the number of batches."""
    made = case.location_of_site(schedule.call_site)
    lines = case.capture.sources.get(made.file, {}) if made is not None else {}
    line = line_that_counts_batches(tree_of(lines), made.line) if made is not None and made.line in lines else None
    return None if made is None or line is None else Location(made.file, line)


def _is_of_batches(case: Case, schedule: Schedule) -> bool:
    """Whether the source makes its length of the number of batches."""
    made = case.location_of_site(schedule.call_site)
    lines = case.capture.sources.get(made.file, {}) if made is not None else {}
    return made is not None and made.line in lines and length_counts_batches(tree_of(lines), made.line)
