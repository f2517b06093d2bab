"""The line that assigns a variable again before anything has read it, so that its value is lost.

>>> assigned("    loss = loss + term(x)"), reads("    loss = loss + term(x)", "loss")
('loss', True)
>>> assigned("self.out = net(x)"), assigned("a, b = pair"), assigned("for x in xs:")
('self.out', None, None)
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import callers
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location
from gradviz.graph.model import CallSite

_MAX_CALLS = 1_000


class Overwriting(Struct, frozen=True):
    """Two assignments of a variable with no use in between."""

    variable: str
    computed: Location
    """The line whose result is lost."""
    overwritten: Location
    """The line that assigns the variable again."""


def overwriting_of(flow: Dataflow, row: int, text_of: Callable[[Location | None], str | None]) -> Overwriting | None:
    """Where the variable that holds a call's result is assigned again before any line has read it.

    It searches the lines that ran next in the same function. Lines without a call are not recorded, so there must be
    none in between.
    """
    own = _line_that_assigns(flow, row, text_of)
    if own is None:
        return None
    computed = Location(own.file, own.line)
    variable = assigned(text_of(computed) or "") or ""
    has_left = False
    for later in range(row + 1, min(row + _MAX_CALLS, len(flow.log.calls))):
        line = next((each for each in callers(flow, later) if _same_function(each, own)), None)
        has_left |= line is None or line.line != own.line
        if line is None or not has_left:
            continue
        location = Location(line.file, line.line)
        text = text_of(location) or ""
        if reads(text, variable):
            return None
        if assigned(text) == variable:
            between = (text_of(Location(own.file, number)) for number in range(own.line + 1, line.line))
            is_known = line.line > own.line and all(text is not None for text in between)
            return Overwriting(variable, computed, location) if is_known else None
    return None


def _line_that_assigns(flow: Dataflow, row: int, text_of: Callable[[Location | None], str | None]) -> CallSite | None:
    """The line that stores the result of a call; if a function returns it at once, the line further up."""
    for line in callers(flow, row):
        text = text_of(Location(line.file, line.line)) or ""
        if assigned(text) is not None:
            return line
        if not isinstance(_statement(text), ast.Return):
            return None
    return None


def _same_function(one: CallSite, other: CallSite) -> bool:
    return (one.file, one.function) == (other.file, other.function)


def assigned(line: str) -> str | None:
    """The variable or attribute that a line assigns; None for all but the simplest statements."""
    match _statement(line):
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target]):
            return ast.unparse(target)
    return None


def reads(line: str, variable: str) -> bool:
    """Whether a line reads a variable; a line that is not a whole statement might."""
    statement = _statement(line)
    if statement is None:
        return variable in line
    return any(
        isinstance(each, ast.Name | ast.Attribute) and isinstance(each.ctx, ast.Load) and ast.unparse(each) == variable
        for each in ast.walk(statement)
    ) or isinstance(statement, ast.AugAssign)


def _statement(line: str) -> ast.stmt | None:
    try:
        statements = ast.parse(line.strip()).body
    except (SyntaxError, ValueError):
        return None
    return statements[0] if len(statements) == 1 else None
