"""The line that decides whether something is computed again or taken from where it is kept: a key, a condition, a
decorator.

>>> tree = SourceTree(dict(enumerate('''class Search:
...     def table(self, pos):
...         key = pos.shape
...         if key not in self.kept:
...             self.kept[key] = order(pos)
...         return self.kept[key]
...     def flag(self, pos):
...         if self.order is not None:
...             return self.order
...         self.order = order(pos)
...         return self.order
...     @lru_cache(None)
...     def size(self, n):
...         return order(self.pos)
... def order(pos, mask=None):
...     if mask is None:
...         mask = pos > 0
...     return (pos * mask).argsort()
... '''.splitlines(), start=1)))
>>> [line_of_cache(tree, line) for line in (5, 10, 14, 17, 18)]
[3, 8, 12, None, None]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.rules.bases.sources.cached_results import function_on
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import (
    SourceTree,
    all_parameters_of,
    called_name,
    decorator_that_keeps_results,
    last_line,
)

_ENDS = (ast.Return, ast.Continue, ast.Raise)


def line_of_cache(tree: SourceTree, line: int) -> int | None:
    """The key, condition or decorator by which a line runs only where nothing is kept; None if none is known."""
    statement, function = tree.statement_at(line), function_on(tree, line)
    if statement is None:
        return None
    given = all_parameters_of(function) if function is not None else set[str]()
    for guard in _guards(tree, statement):
        if isinstance(guard, ast.Try):
            return guard.lineno
        kept = _kept_by(guard.test, given)
        if kept is not None:
            return _line_of_key(tree, kept, guard.lineno)
    if any(called_name(each) == "setdefault" for each in ast.walk(statement)):
        return statement.lineno
    keeps = None if function is None else decorator_that_keeps_results(function)
    return None if keeps is None else keeps.lineno


def asks_for_given_key(tree: SourceTree, line: int) -> bool:
    """Whether a line runs only where nothing is kept under a key that its function is given."""
    statement, function = tree.statement_at(line), function_on(tree, line)
    guard = None if statement is None else next(_guards(tree, statement), None)
    if function is None or not isinstance(guard, ast.If):
        return False
    given = all_parameters_of(function)
    kept = _kept_by(guard.test, given)
    return isinstance(kept, ast.Name) and kept.id in given


def _guards(tree: SourceTree, statement: ast.stmt) -> Iterator[ast.If | ast.Try]:
    """What may keep a statement from running, in its function, innermost first: conditions around it, and those before
    it that leave the function."""
    below: ast.AST = statement
    for around in (statement, *tree.around(statement)):
        if isinstance(around, ast.If):
            yield around
        if isinstance(around, ast.ExceptHandler) and _is_missing(around):
            tried = tree.parent(around)
            if isinstance(tried, ast.Try):
                yield tried
        body = getattr(around, "body", None)
        if isinstance(body, list) and below in body:
            before = body[: body.index(below)]
            yield from (
                each for each in reversed(before) if isinstance(each, ast.If) and isinstance(each.body[-1], _ENDS)
            )
        if isinstance(around, FUNCTIONS):
            return
        below = around


def _is_missing(handler: ast.ExceptHandler) -> bool:
    """``except KeyError:``, which runs where nothing is kept."""
    return handler.type is not None and any(
        name in ast.unparse(handler.type) for name in ("KeyError", "AttributeError")
    )


def _kept_by(test: ast.expr, given: set[str]) -> ast.expr | None:
    """What a condition asks for: a key, or what is kept itself; None for a condition on what a function is given."""
    for node in ast.walk(test):
        match node:
            case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()]):
                return key
            case ast.Compare(left=held, ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
                return None if isinstance(held, ast.Name) and held.id in given else held
            case ast.Call() if called_name(node) in ("hasattr", "get"):
                return node
            case ast.UnaryOp(op=ast.Not(), operand=ast.Attribute() | ast.Subscript() as held):
                return held
            case ast.Compare(left=ast.Name() | ast.Attribute(), ops=[ast.Eq()], comparators=[ast.Constant(value=0)]):
                return node
    return None


def _line_of_key(tree: SourceTree, kept: ast.expr, line: int) -> int:
    """The line that makes a key, if the same function does; else that of the condition."""
    key = tree.key_of(kept) if isinstance(kept, ast.Name) else None
    if key is None:
        return line
    scope = tree.scope(kept)
    lines = [
        node.lineno
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign)
        and last_line(node) < line
        and any(isinstance(each, ast.Name) and each.id == key.name for each in node.targets)
        and not (isinstance(node.value, ast.Constant) and node.value.value is None)
    ]
    asks = "get" in {called_name(each) for each in _values(tree, kept)}
    return line if asks or not lines else max(lines)


def _values(tree: SourceTree, name: ast.expr) -> list[ast.expr]:
    return tree.values_of(tree.key_of(name))
