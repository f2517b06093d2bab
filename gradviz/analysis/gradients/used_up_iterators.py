"""Iterators over parameters that are empty when a second call receives them, read from a program's source."""

from __future__ import annotations

import ast
import re

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Location

_MAX_LINES = 12
"""The most lines of one statement."""
_MAKE_ITERATORS = frozenset({"filter", "map", "iter", "chain", "from_iterable", "islice", "parameters"})


def line_of_used_up_iterator(case: Case, clip: Location, *, is_used_by_clip: bool) -> Location | None:
    """The only line that assigns the variable that a call receives, if it assigns an iterator that something uses up.

    Args:
        clip: the line of a call with the iterator as its first argument.
        is_used_by_clip: whether that call itself received something at first; else another line must use the variable.
    """
    lines = case.capture.sources.get(clip.file, {})
    name = _first_argument(_statement(lines, clip.line))
    if name is None:
        return None
    assigned = re.compile(rf"^\s*{re.escape(name)}\s*(:[^=]*)?=(?!=)")
    makers = [number for number, text in lines.items() if assigned.match(text)]
    mentioned = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
    others = [number for number, text in lines.items() if mentioned.search(text) and number not in (*makers, clip.line)]
    if len(makers) != 1 or not (others or is_used_by_clip) or not _makes_iterator(_statement(lines, makers[0])):
        return None
    return Location(clip.file, makers[0])


def _statement(lines: dict[int, str], first: int) -> ast.stmt | None:
    """The statement that begins on a line; None if it does not end within a few lines, or begins a block."""
    text = ""
    for number in range(first, first + _MAX_LINES):
        text += lines.get(number, "").strip() + "\n"
        try:
            return ast.parse(text).body[0]
        except (SyntaxError, IndexError):
            continue
    return None


def _first_argument(statement: ast.stmt | None) -> str | None:
    for node in ast.walk(statement) if statement is not None else ():
        if isinstance(node, ast.Call) and "clip_grad" in ast.unparse(node.func):
            given = [*node.args, *(each.value for each in node.keywords if each.arg == "parameters")][:1]
            return next((ast.unparse(each) for each in given if isinstance(each, (ast.Name, ast.Attribute))), None)
    return None


def _makes_iterator(statement: ast.stmt | None) -> bool:
    value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).rpartition(".")[2] in _MAKE_ITERATORS
    return isinstance(value, ast.GeneratorExp)
