"""Parameters of which only the number is used, that ``item()`` reads: for the loss it is a constant."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import pairwise

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers, location_of_call
from gradviz.analysis.dataflow.cuts import is_exit
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.sources.own_files import own_tree

_LOOKED_AT = 20
"""The steps that are looked at: what a program reads for its loss, it reads in each of them."""


def line_that_reads(case: Case, number: int) -> Location | None:
    """The line that reads a parameter as a number before every step: what it gets is returned or assigned, within a
    function that also computes a part of the loss. What is only printed or logged is left out."""
    histories, flow, calls = case.histories, case.dataflow, case.dataflow.log.calls
    reads = [row for row in flow.users(number) if is_exit(calls[row])]
    steps = [row for row in histories.steps if any(use.tensor == number for use in calls[row].inputs)][:_LOOKED_AT]
    found: Location | None = None
    for before, step in pairwise((-1, *steps)) if reads else ():
        backward = histories.backward_of_step(step)
        if backward is None:
            return None
        line = _line_for_loss(flow, [row for row in reads if before < row < backward], backward)
        if line is None or not _is_kept(case, line):
            return None
        found = found or line
    return found


def _line_for_loss(flow: Dataflow, reads: Iterable[int], backward: int) -> Location | None:
    """The first of these reads inside a function that computes a part of the loss, and that does not call backward."""
    trainer = next(((line.file, line.function) for line in callers(flow, backward)), None)
    made = {row for use in flow.log.calls[backward].roots for row in flow.ancestors(use.tensor, backward)}
    functions = {(line.file, line.function) for row in made for line in callers(flow, row)} - {trainer}
    inside = (row for row in reads if any((line.file, line.function) in functions for line in callers(flow, row)))
    return next((location_of_call(flow, row) for row in inside), None)


def _is_kept(case: Case, line: Location) -> bool:
    """Whether a statement goes on with what it computes, and does not print it or put it into a text or a dict."""
    tree = own_tree(case, line.file)
    statement = None if tree is None else tree.statement_at(line.line)
    if statement is None or any(isinstance(part, ast.Dict | ast.JoinedStr) for part in ast.walk(statement)):
        return False
    is_named = isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    return is_named or isinstance(statement, ast.Return | ast.AugAssign)
