"""The lines of a program that make and step a schedule of learning rates, read from its source."""

from __future__ import annotations

import re

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.finding import Location

_WRITES_A_RATE = re.compile(r"""\[["']lr["']\]\s*[-+*/]*=[^=]""")
_MAKES_A_SCHEDULE = re.compile(
    r"=.*\b\w+(LR|Restarts|Plateau|Scheduler|Schedule)\(|\bget_\w*schedule\w*\(", re.IGNORECASE
)
_STEPS_A_SCHEDULE = re.compile(r"\b\w*(sched|warm)\w*\.step\(", re.IGNORECASE)
_ASSIGNED = re.compile(r"^\s*((?:\w+\.)*\w+)\s*=[^=]")


def places_of_schedule(case: Case, optimizer: int) -> dict[str, Location | None]:
    """The places of a finding about the schedule of an optimizer: the line that steps it, and the one that makes it."""
    steps = case.histories.steps_by_optimizer.get(optimizer, [])
    step = location_of_call(case.dataflow, steps[-1]) if steps else None
    stepped, made = line_that_steps(case, step), line_of_schedule(case, step)
    return {"location": stepped or made or step, "symptom_location": made if stepped not in (None, made) else None}


def line_of_schedule(case: Case, step: Location | None) -> Location | None:
    """The only line that writes a learning rate, or else the only one that makes a schedule; None if it is not clear
    which that is.

    Args:
        step: a line that steps the optimizer; schedules of its file are looked for.
    """
    for pattern in (_WRITES_A_RATE, _MAKES_A_SCHEDULE):
        found = _lines_with(case, step, pattern)
        if len(found) == 1:
            return found[0]
    return None


def line_that_steps(case: Case, step: Location | None) -> Location | None:
    """The only line that steps a schedule."""
    found = _lines_with(case, step, _STEPS_A_SCHEDULE)
    made = _lines_with(case, step, _MAKES_A_SCHEDULE)
    assigned = _ASSIGNED.match(case.source_line(made[0]) or "") if len(made) == 1 else None
    if not found and assigned is not None:
        found = _lines_with(case, step, re.compile(rf"(?<![\w.]){re.escape(assigned[1])}\.step\("))
    return found[0] if len(found) == 1 else None


def _lines_with(case: Case, step: Location | None, pattern: re.Pattern[str]) -> list[Location]:
    lines = case.capture.sources.get(step.file, {}) if step is not None else {}
    return [Location(step.file, number) for number, text in lines.items() if step is not None and pattern.search(text)]
