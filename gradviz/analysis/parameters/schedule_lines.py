"""The lines of a program that make and step a schedule of learning rates, read from its source."""

from __future__ import annotations

import re

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Location

_WRITES_A_RATE = re.compile(r"""\[["']lr["']\]\s*[-+*/]*=[^=]""")
_MAKES_A_SCHEDULE = re.compile(
    r"=.*\b\w+(LR|Restarts|Plateau|Scheduler|Schedule)\(|\bget_\w*schedule\w*\(", re.IGNORECASE
)
_STEPS_A_SCHEDULE = re.compile(r"\b\w*(sched|warm)\w*\.step\(", re.IGNORECASE)
_ASSIGNED = re.compile(r"^\s*((?:\w+\.)*\w+)\s*=[^=]")


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
