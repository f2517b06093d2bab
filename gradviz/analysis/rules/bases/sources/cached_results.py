"""The line that keeps the result of a function for later calls: a decorator, or an assignment to what lives on.

>>> tree = SourceTree(dict(enumerate('''class Roads:
...     @cached_property
...     def strength(self):
...         return sigmoid(self.w)
...     def table(self):
...         made = sigmoid(self.w)
...         self.kept["table"] = made
...         return made
...     def other(self):
...         self.own = self.table()
...         return self.own + 1
... '''.splitlines(), start=1)))
>>> [line_that_keeps_result(tree, line) for line in (4, 6, 10, 11)]
[Kept(line=2, name='@cached_property'), Kept(line=7, name="self.kept['table']"), Kept(line=10, name='self.own'), None]
"""

from __future__ import annotations

import ast
import re

from msgspec import Struct

from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_line, last_name

_CACHES = re.compile(r"cache|memo|lazy", re.IGNORECASE)
_PUT_IN = frozenset({"append", "insert", "setattr", "setdefault", "update"})


class Kept(Struct, frozen=True):
    """The line that keeps a result, and what keeps it."""

    line: int
    name: str
    """``self.kept['table']``; ``@cached_property`` for a decorator."""


def function_on(tree: SourceTree, line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The innermost function that a line is in, its decorators included."""
    around = [
        each for each in tree.nodes if isinstance(each, FUNCTIONS) and _first_line(each) <= line <= last_line(each)
    ]
    return max(around, key=_first_line, default=None)


def line_that_keeps_result(tree: SourceTree, line: int) -> Kept | None:
    """What keeps the result that a line computes; None if its function only returns it."""
    function = function_on(tree, line)
    if function is None:
        return None
    for decorator in function.decorator_list:
        name = called_name(decorator) or last_name(decorator)
        if _CACHES.search(name):
            return Kept(decorator.lineno, f"@{name}")
    statements = [each for each in ast.walk(function) if isinstance(each, (ast.Assign, ast.AnnAssign, ast.Expr))]
    own = next((each for each in statements if each.lineno <= line <= last_line(each)), None)
    if own is None:
        return None
    kept = _holder(own, None)
    if kept is not None:
        return Kept(own.lineno, kept)
    names = {target.id for target in _targets(own) if isinstance(target, ast.Name)}
    below = sorted((each for each in statements if each.lineno > line), key=lambda each: each.lineno)
    return next((Kept(each.lineno, held) for each in below if (held := _holder(each, names)) is not None), None)


def _holder(statement: ast.stmt, names: set[str] | None) -> str | None:
    """The attribute, or the list or dict, in which a statement keeps one of some variables; None for `names`: whatever
    it keeps."""
    value = getattr(statement, "value", None)
    if names is not None and not _gives(value, names):
        return None
    if isinstance(statement, ast.Expr):
        if called_name(statement.value) not in _PUT_IN or not isinstance(statement.value, ast.Call):
            return None
        call = statement.value
        if isinstance(call.func, ast.Attribute):
            return ast.unparse(call.func.value)
        return next((str(each.value) for each in call.args[1:2] if isinstance(each, ast.Constant)), "the attribute")
    targets = [each for each in _targets(statement) if isinstance(each, (ast.Attribute, ast.Subscript))]
    return ast.unparse(targets[0]) if targets else None


def _gives(value: ast.expr | None, names: set[str]) -> bool:
    """Whether an expression is one of some variables, or a call or a display that gets one as it is."""
    parts = [value]
    if isinstance(value, ast.Call):
        parts = [*value.args, *(each.value for each in value.keywords)]
    elif isinstance(value, (ast.Tuple, ast.List)):
        parts = [*value.elts]
    return any(isinstance(each, ast.Name) and each.id in names for each in parts)


def _targets(statement: ast.stmt) -> list[ast.expr]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    flat = (part for each in targets for part in (each.elts if isinstance(each, ast.Tuple) else [each]))
    return [each for each in flat if each is not None]


def _first_line(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([function.lineno, *(each.lineno for each in function.decorator_list)])
