"""Statements that compute the next value of a counter and keep it nowhere.

>>> tree = SourceTree(dict(enumerate('''state._replace(step=state.step + 1)
... state = state._replace(step=state.step + 1)
... step + 1
... step =+ 1
... class Own:
...     def __init__(self):
...         self.count = 0
...     def advance(self):
...         count = self.count
...         count += 1
... '''.splitlines(), start=1)))
>>> [(each.name, each.line) for each in lost_counts(tree)]
[('state.step', 1), ('step', 3), ('step', 4), ('self.count', 10)]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import Loop, SourceTree, called_name, is_read, last_name

_RETURN_NEW = frozenset({"_replace", "replace"})
"""They return a new object with another value, and leave the old one as it is."""


class LostCount(Struct, frozen=True):
    """One statement."""

    name: str
    line: int
    why: str
    fix: str
    loops: tuple[Loop, ...]
    """The loops around it."""
    around: tuple[int, int] | None
    """The first and the last line of the function around it."""


def lost_counts(tree: SourceTree) -> Iterator[LostCount]:
    """In the order of their lines."""
    found = [each for node in tree.nodes if isinstance(node, ast.stmt) for each in _of_statement(tree, node)]
    yield from sorted(found, key=lambda each: each.line)


def _of_statement(tree: SourceTree, node: ast.stmt) -> Iterator[LostCount]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield from _of_new_object(tree, node, node.value)
    elif isinstance(node, ast.Expr) and _is_next(node.value):
        name = ast.unparse(node.value.left)  # type: ignore[attr-defined]
        yield _lost(tree, node, name, "a sum that is a statement of its own changes nothing", f"write {name} += 1")
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.UnaryOp) and isinstance(node.value.op, ast.UAdd):
        name = ast.unparse(node.targets[0])
        if isinstance(node.value.operand, ast.Constant) and _is_tight(node, node.value):
            yield _lost(tree, node, name, "=+ assigns a positive number and adds nothing", f"write {name} += 1")
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and isinstance(node.op, ast.Add):
        yield from _of_copy(tree, node, node.target)


def _of_new_object(tree: SourceTree, node: ast.Expr, call: ast.Call) -> Iterator[LostCount]:
    """``state._replace(step=state.step + 1)``, ``dataclasses.replace(state, step=state.step + 1)``."""
    if called_name(call) not in _RETURN_NEW:
        return
    keyword = next((each for each in call.keywords if each.arg is not None and _is_next(each.value)), None)
    if keyword is None:
        return
    owner = call.args[0] if call.args else call.func.value if isinstance(call.func, ast.Attribute) else None
    if owner is not None and last_name(keyword.value.left) == keyword.arg:  # type: ignore[attr-defined]
        whole, function = ast.unparse(owner), called_name(call)
        yield _lost(
            tree, node, f"{whole}.{keyword.arg}",
            f"{function}() returns a new object, and nothing takes it",
            f"keep the result: {whole} = {ast.unparse(call)}",
        )  # fmt: skip


def _of_copy(tree: SourceTree, node: ast.AugAssign, target: ast.Name) -> Iterator[LostCount]:
    """A local variable that is counted up instead of the attribute whose number it got."""
    function = tree.scope(node)
    if not isinstance(function, FUNCTIONS):
        return
    own = [each for each in ast.walk(function) if isinstance(each, ast.Name) and each.id == target.id]
    sources = [
        value
        for name, value in tree.assignments
        if isinstance(name, ast.Name) and name.id == target.id and tree.scope(name) is function
    ]
    is_read_later = any(is_read(each) and each.lineno >= node.lineno for each in own)
    if len(sources) != 1 or is_read_later or not isinstance(sources[0], ast.Attribute):
        return
    key = tree.key_of(sources[0])
    if key is not None and tree.times_bound(key) == 1 and tree.number(sources[0]) is not None:
        why = f"{target.id} is a number of its own: {key.name} keeps its value"
        yield _lost(tree, node, key.name, why, f"count {key.name} itself: {key.name} += 1")


def _is_next(value: ast.expr) -> bool:
    """``step + 1``, of a variable."""
    return (
        isinstance(value, ast.BinOp)
        and isinstance(value.op, ast.Add)
        and isinstance(value.left, (ast.Name, ast.Attribute, ast.Subscript))
        and isinstance(value.right, ast.Constant)
        and type(value.right.value) is int
    )


def _is_tight(node: ast.Assign, value: ast.UnaryOp) -> bool:
    """Whether the sign stands beside the ``=``, as that of ``+=`` does: ``x = +1`` is meant."""
    target = node.targets[0]
    return value.operand.col_offset - value.col_offset > 1 and value.col_offset - (target.end_col_offset or 0) <= len(
        " =+"
    )


def _lost(tree: SourceTree, node: ast.stmt, name: str, why: str, fix: str) -> LostCount:
    function = tree.scope(node)
    around = (function.lineno, function.end_lineno or function.lineno) if isinstance(function, FUNCTIONS) else None
    return LostCount(name, node.lineno, why, fix, tuple(tree.loops_around(node)), around)
