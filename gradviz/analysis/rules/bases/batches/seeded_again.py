"""Random numbers that come back in a training, because something seeds the generator that everything draws from."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import location_of_call
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.unread_names import function_around

MIN_NUMBERS = 8
"""Fewer may have the same extremes by chance, or be a setting that is drawn."""
_MIN_TIMES = 2
_SEEDS_ALL = re.compile(r"\b(torch\.manual_seed|seed_everything|set_seed|seed_all)\(")


def rows_of_one_optimizer(flow: Dataflow, rows: list[int]) -> list[int]:
    """The draws of the most steps of one optimizer: a program may train several models from one seed."""
    steps = flow.rows_of_kind("step")
    found: dict[int | None, dict[int, int]] = defaultdict(dict)
    for row in rows:
        index = bisect_left(steps, row)
        if index < len(steps):
            found[flow.log.calls[steps[index]].optimizer].setdefault(steps[index], row)
    return max((list(each.values()) for each in found.values()), key=len, default=[])


def different_draws(flow: Dataflow, rows: list[int]) -> int | None:
    """How many different draws there are, if each comes twice or more on average; None if not, or if it is unknown.

    They are of so many numbers that no two are the same by chance.
    """
    values = [flow.log.calls[row].outputs[0].values for row in rows]
    if not values or any(each is None or each.count < MIN_NUMBERS or each.zeros for each in values):
        return None
    different = len(set(values))
    return different if different > 1 and _MIN_TIMES * different <= len(rows) else None


def line_that_seeds_all(case: Case, rows: list[int]) -> Location | None:
    """The line that seeds torch in a function in which something was computed between two draws."""
    flow = case.dataflow
    between = {location_of_call(flow, row) for row in range(rows[0] + 1, rows[-1])} - {None}
    for file, lines in case.capture.sources.items():
        for number in (number for number, text in lines.items() if _SEEDS_ALL.search(text)):
            around = function_around(lines, number)
            ran = (each.line for each in between if each is not None and each.file == file)
            if around is not None and lines[number].startswith((" ", "\t")) and any(line in around for line in ran):
                return Location(file, number)
    return None
