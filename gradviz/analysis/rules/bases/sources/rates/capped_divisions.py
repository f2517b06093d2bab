"""Weights that should rise from 0 to 1 and are rounded down on the way: ``min(1.0, step // length)``.

>>> tree = SourceTree(dict(enumerate('''def faded(step):
...     return 0.5 * min(1.0, step // 100)
... w = faded(3)
... loss = a + w * b
... other = a + (step // 100) * b'''.splitlines(), 1)))
>>> line_of_capped_division(tree, 4), line_of_capped_division(tree, 5)
(2, None)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_name

_CAPS = frozenset({"min", "clip", "clamp", "minimum"})
_ROUNDS = frozenset({"int", "floor"})
_MOST_LOOKS = 3


def line_of_capped_division(tree: SourceTree, line: int) -> int | None:
    """Where a line, a function that it calls, or what its variables are given, bounds a quotient that was rounded down
    by 1; None if it does not."""
    looked = set[str]()
    nodes = [node for node in tree.nodes if getattr(node, "lineno", None) == line]
    for _ in range(_MOST_LOOKS):
        capped = next((each for each in nodes if _caps_division(each)), None)
        if capped is not None:
            return getattr(capped, "lineno", None)
        names = {name for node in nodes if (name := _name_read(node))} - looked
        looked |= names
        nodes = [each for node in _definitions(tree, names) for each in ast.walk(node)]
    return None


def line_of_floor_division(tree: SourceTree, line: int) -> int | None:
    """Where a factor on a line was given a quotient that was rounded down, ``alpha // rank``; None if none was."""
    factors = (node for node in tree.nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult))
    sides = (side for node in factors if node.lineno == line for side in (node.left, node.right))
    values = _definitions(tree, {name for side in sides if (name := _name_read(side))})
    parts = (part for value in values for part in ast.walk(value))
    return next((each.lineno for each in parts if isinstance(each, ast.BinOp) and _is_rounded_down(each)), None)


def _name_read(node: ast.AST) -> str:
    return last_name(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""


def _definitions(tree: SourceTree, names: set[str]) -> Iterator[ast.AST]:
    """The functions with some names, and what variables with these names are given."""
    if names:
        yield from (node for node in tree.nodes if isinstance(node, ast.FunctionDef) and node.name in names)
        yield from (value for target, value in tree.assignments if last_name(target) in names)


def _caps_division(node: ast.AST) -> bool:
    """``min(1, a // b)``."""
    if called_name(node) not in _CAPS or not isinstance(node, ast.Call):
        return False
    given = [*node.args, *(each.value for each in node.keywords)]
    has_one = any(isinstance(each, ast.Constant) and each.value == 1 for each in given)
    return has_one and any(_is_rounded_down(each) for each in node.args)


def _is_rounded_down(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.FloorDiv)
    if called_name(node) not in _ROUNDS or not isinstance(node, ast.Call):
        return False
    return any(isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div) for each in node.args)
