"""What is better of a number, as it shows in what it was computed from: a loss function of torch, or comparisons with
the right answer."""

from __future__ import annotations

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.kept_best import Better
from gradviz.analysis.rules.bases.losses.fits import ERRORS
from gradviz.analysis.rules.bases.sources.lines_that_ran import LinesThatRan
from gradviz.analysis.rules.bases.sources.rates.better_words import better_by_words, is_turned_round
from gradviz.analysis.rules.bases.sources.rates.plateaus_by_hand import Plateau

MAX_ROWS = 20
"""So many of the calls that returned the numbers are looked at."""
_MAX_CALLS = 12


def better_by_hand(case: Case, ran: LinesThatRan, plateau: Plateau) -> Better | None:
    """What is better of a number that a program compares itself, as its origin or its names tell."""
    calls = case.dataflow.log.calls
    rows = [row for line in plateau.made for row in ran.rows_in(line, line) if type(calls[row].result) is float]
    named = {better_by_words(each) for each in (plateau.name, *plateau.given) if not is_turned_round(each)} - {None}
    return better_by_origin(case, rows[-MAX_ROWS:]) or (next(iter(named)) if len(named) == 1 else None)


def better_by_origin(case: Case, rows: list[int]) -> Better | None:
    """What is better, if the origins of the numbers agree."""
    found = {_better_of(case.dataflow, row) for row in rows}
    return next(iter(found)) if len(found) == 1 else None


def _better_of(flow: Dataflow, row: int) -> Better | None:
    """What is better of the number that a call reads."""
    tensor, before = flow.log.calls[row].inputs[0].tensor, row
    for _ in range(_MAX_CALLS):
        made = flow.newest_producer(tensor, before)
        if made is None:
            return None
        call = flow.log.calls[made]
        name = plain_name(call.function)
        if name in ERRORS:
            return "min"
        if name == "eq" and len(call.inputs) > 1:
            return "max"
        is_kept = name in _KEEP and len(call.inputs) == 1 and not _is_negative(call.scalars.get("1"))
        if not is_kept and name not in _ADD:
            return None
        tensor, before = call.inputs[-1].tensor, made
    return None


def _is_negative(number: object) -> bool:
    return isinstance(number, int | float) and number < 0


_KEEP = frozenset({"mean", "sum", "float", "double", "to", "type", "div", "mul", "detach", "cpu", "clone", "squeeze"})
_ADD = frozenset({"add", "iadd"})
