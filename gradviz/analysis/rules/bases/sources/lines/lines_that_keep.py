"""The statement that puts a result, as it is, into a list, a dict or an attribute that lives on.

>>> tree = SourceTree(dict(enumerate('''def balance(self, losses):
...     stacked = torch.stack(losses)
...     weight = softmax(self.history[1] / self.history[0])
...     self.history.append(stacked)
...     self.best = stacked.min()
...     return (weight * stacked).sum()
... '''.splitlines(), start=1)))
>>> statement_that_keeps(tree, 2, {"self", "history"})
Keeping(line=4, holder='self.history', without_graph='self.history.append(stacked.detach())')
>>> statement_that_keeps(tree, 2, {"self", "best"}), statement_that_keeps(tree, 3, {"self", "history"})
(None, None)
"""

from __future__ import annotations

import ast
from collections.abc import Container

from msgspec import Struct

from gradviz.analysis.sources.named_by_statements import bound_by
from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_name

_PUTS = frozenset({"append", "appendleft", "insert", "put", "extend", "update", "setdefault"})


class Keeping(Struct, frozen=True):
    """A statement that keeps a variable."""

    line: int
    holder: str
    """What it is put into: ``self.history``."""
    without_graph: str
    """The statement with ``detach()``."""


def kept_by(statement: ast.stmt | None) -> list[ast.expr]:
    """What a statement puts into a container, or assigns, as it is."""
    if isinstance(statement, ast.Assign):
        return [statement.value]
    call = statement.value if isinstance(statement, ast.Expr) else None
    return call.args if isinstance(call, ast.Call) and called_name(call) in _PUTS else []


def statement_that_keeps(tree: SourceTree, line: int, read: Container[str]) -> Keeping | None:
    """The first statement below a line, in the same function, that keeps the variable which the line gives a value.

    Args:
        read: The variables and attributes that are read again: others that keep it as well do not matter.
    """
    made = tree.statement_at(line)
    targets = made.targets if isinstance(made, ast.Assign) else []
    name = targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else None
    if made is None or name is None:
        return None
    scope = tree.scope(made)
    below = (each for each in ast.walk(scope) if isinstance(each, ast.stmt) and each.lineno > made.lineno)
    for statement in sorted(below, key=lambda each: each.lineno):
        if tree.scope(statement) is not scope:
            continue
        holder = _holder(statement)
        if holder is not None and last_name(holder) in read:
            kept = [each for value in kept_by(statement) for each in _elements(value)]
            if any(isinstance(each, ast.Name) and each.id == name for each in kept):
                return Keeping(statement.lineno, ast.unparse(holder), _detached(statement, name))
        if name in bound_by(statement):
            break
    return None


def _holder(statement: ast.stmt) -> ast.expr | None:
    """The object that a statement puts something into: of ``self.kept[0] = x`` and ``self.kept.append(x)`` what is
    called ``self.kept``."""
    holder: ast.expr | None = None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        holder = target if isinstance(target, (ast.Attribute, ast.Subscript)) else None
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        holder = statement.value.func.value if isinstance(statement.value.func, ast.Attribute) else None
    while isinstance(holder, ast.Subscript):
        holder = holder.value
    return holder


def _elements(value: ast.expr) -> list[ast.expr]:
    return value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]


def _detached(statement: ast.stmt, name: str) -> str:
    """The source of a statement that keeps a variable, with ``detach()`` behind it."""
    (copied,) = ast.parse(ast.unparse(statement)).body
    for element in (each for value in kept_by(copied) for each in _elements(value)):
        if isinstance(element, ast.Name) and element.id == name:
            element.id = f"{name}.detach()"
    return ast.unparse(copied)
