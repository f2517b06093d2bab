"""Iterators over parameters that are empty when a call that clips gradients receives them."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from gradviz.analysis.rules.bases.sources.iterators.named_iterators import makes_iterator, named_iterators
from gradviz.analysis.rules.bases.sources.iterators.uses_of_iterators import uses_when_empty
from gradviz.analysis.sources.source_tree import tree_of

_MAX_LINES = 12
"""The most lines of one statement."""


def line_of_empty_iterator(lines: Mapping[int, str], clip: int, *, is_used_by_clip: bool) -> int | None:
    """The line that makes the iterator which a call received that clipped nothing.

    Args:
        clip: the line of a call with the iterator as its first argument.
        is_used_by_clip: whether that call itself received something at first; else another line must use the variable.
    """
    line = _only_line_that_makes_it(lines, clip, is_used_by_clip=is_used_by_clip)
    if line is not None or not lines:
        return line
    tree = tree_of(lines)
    empty = ((held, use) for held in named_iterators(tree) for use in uses_when_empty(tree, held))
    return next((held.line for held, each in empty if each.use.is_call and each.use.node.lineno == clip), None)


def _only_line_that_makes_it(lines: Mapping[int, str], clip: int, *, is_used_by_clip: bool) -> int | None:
    """The only line that assigns the variable, if it assigns an iterator, and something else may use it up.

    It needs no more than the lines of these two statements.
    """
    name = _first_argument(_statement(lines, clip))
    if name is None:
        return None
    assigned = re.compile(rf"^\s*{re.escape(name)}\s*(:[^=]*)?=(?!=)")
    makers = [number for number, text in lines.items() if assigned.match(text)]
    mentioned = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
    others = [number for number, text in lines.items() if mentioned.search(text) and number not in (*makers, clip)]
    if len(makers) != 1 or not (others or is_used_by_clip) or not _makes_iterator(_statement(lines, makers[0])):
        return None
    return makers[0]


def _statement(lines: Mapping[int, str], first: int) -> ast.stmt | None:
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
    return value is not None and makes_iterator(value)
