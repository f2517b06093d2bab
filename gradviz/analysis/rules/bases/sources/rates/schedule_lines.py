"""The lines of a program that make and step a schedule of learning rates, read from its source."""

from __future__ import annotations

import re

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.finding import Location

WRITES_A_RATE = re.compile(r"""\[["']lr["']\]\s*[-+*/]*=[^=]""")
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
    written, made = lines_that_write_rates(case, step), _lines_with(case, step, _MAKES_A_SCHEDULE)
    if len(written) == 1:
        return _call_that_gives_it(case, written[0]) or written[0]
    return made[0] if len(made) == 1 else None


def lines_that_write_rates(case: Case, step: Location | None) -> list[Location]:
    """The lines that write a learning rate into a group, in the file of a line that steps the optimizer."""
    return _lines_with(case, step, WRITES_A_RATE)


def _call_that_gives_it(case: Case, written: Location) -> Location | None:
    """The only line that calls the function around a line which writes a rate that the function was given."""
    lines = case.capture.sources.get(written.file, {})
    above = (_DEFINED.match(lines.get(number, "")) for number in range(written.line - 1, 0, -1))
    defined = next((each for each in above if each is not None), None)
    rate = _WRITTEN.search(lines[written.line])
    if defined is None or rate is None or rate[1] not in re.findall(r"\w+", defined[2]):
        return None
    calls = _lines_with(case, written, re.compile(rf"(?<!def )\b{defined[1]}\("))
    return calls[0] if len(calls) == 1 else None


_DEFINED = re.compile(r"\s*def (\w+)\((.*)\)")
_WRITTEN = re.compile(r"""\[["']lr["']\]\s*=\s*(\w+)\s*(?:#|$)""")


def line_that_steps(case: Case, step: Location | None) -> Location | None:
    """The only line that steps a schedule."""
    found = _lines_with(case, step, _STEPS_A_SCHEDULE)
    made = _lines_with(case, step, _MAKES_A_SCHEDULE)
    assigned = _ASSIGNED.match(case.source_line(made[0]) or "") if len(made) == 1 else None
    if not found and assigned is not None:
        found = _lines_with(case, step, _step_of(assigned[1]))
    return found[0] if len(found) == 1 else None


def line_that_steps_this(case: Case, made: Location | None) -> Location | None:
    """The only line that steps the schedule which another line makes, or the only one that steps any schedule."""
    assigned = _ASSIGNED.match(case.source_line(made) or "")
    named = [] if assigned is None else _lines_with(case, made, _step_of(assigned[1]))
    return named[0] if len(named) == 1 else line_that_steps(case, made)


def line_that_rounds(case: Case, made: Location | None) -> Location | None:
    """The only line of the file that makes a schedule which returns a number that ``//`` or ``int()`` has rounded."""
    found = _lines_with(case, made, _ROUNDS)
    return found[0] if len(found) == 1 else None


_ROUNDS = re.compile(r"(\breturn\b|\blambda\b|\bfactor\b|\bscale\b|\blr\b).*(//|\bint\(|\bround\()")


def length_counts_epochs(case: Case, made: Location | None) -> bool:
    """Whether the ``T_max`` of a line that makes a cosine schedule is the number of epochs, as the program says it.

    It is named so, or it is the bound of a loop over epochs.
    """
    given = _LENGTH.search(_statement(case, made))
    if given is None or _COUNTS_STEPS.search(given["length"]):
        return False
    length = given["length"].strip()
    loop = re.compile(rf"{_LOOP}{re.escape(length)}\s*(\+\s*1\s*)?[,)]")
    return "epoch" in length.lower() or bool(_lines_with(case, made, loop))


_LENGTH = re.compile(r"\bCosineAnnealingLR\((\s*[\w.]+\s*,|.*\bT_max\s*=)\s*(T_max\s*=\s*)?(?P<length>[^,)]+)")
_LOOP = r"\bfor\s+(e|ep|\w*epochs?\w*)\s+in\b.*\bt?range\(\s*([01]\s*,\s*)?"
"""A loop over epochs, up to their number."""
_COUNTS_STEPS = re.compile(r"[*/]|len\(|step|iter|batch", re.IGNORECASE)


def _statement(case: Case, begin: Location | None) -> str:
    """A line, and those behind it up to the end of its call."""
    lines = {} if begin is None else case.capture.sources.get(begin.file, {})
    text = case.source_line(begin) or ""
    for number in range(begin.line + 1, begin.line + _MAX_LINES) if begin is not None else ():
        if text.count("(") <= text.count(")"):
            break
        text += " " + lines.get(number, "").strip()
    return text


_MAX_LINES = 10


def _step_of(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.]){re.escape(name)}\.step\(")


def _lines_with(case: Case, step: Location | None, pattern: re.Pattern[str]) -> list[Location]:
    lines = case.capture.sources.get(step.file, {}) if step is not None else {}
    return [Location(step.file, number) for number, text in lines.items() if step is not None and pattern.search(text)]
