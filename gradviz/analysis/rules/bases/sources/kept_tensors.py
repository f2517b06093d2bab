"""The attribute of ``self`` in which a statement keeps the tensors that it makes, as they are.

>>> tree = SourceTree(dict(enumerate('''class Own(Module):
...     def __init__(self):
...         self.scale = ones(1)
...         self.gains = {r: randn(3)
...                       for r in range(4)}
...         tables = []
...         for r in range(4):
...             tables.append(randn(3))
...         self.tables = tables
...         self.layers = Own(randn(3))
...         first = randn(3)
...         self.pair = (first, 2)
...         for name, n in {"low": 2, "high": 3}.items():
...             setattr(self, name, randn(n))
...         self.left, self.right = randn(2), randn(2)
... '''.splitlines(), start=1)))
>>> [attribute_that_keeps(tree, line) for line in (3, 5, 8, 10, 11, 14, 15)]
['scale', 'gains', 'tables', None, 'pair', 'low', 'left']
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Location
from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_name

_CLASS = re.compile(r"^\s*class \w+\s*(\((?P<bases>[^)]*))?")
_PUT_IN = frozenset({"append", "add", "extend", "insert", "update", "setdefault"})
_CONTAINERS = frozenset({"dict", "list", "tuple"})
_DISPLAYS = (ast.List, ast.Tuple, ast.Set)


@lru_cache(maxsize=256)
def attribute_that_keeps(tree: SourceTree, line: int) -> str | None:
    """None if the statement on this line keeps them in no attribute, or gives them to an object that may be a module or
    a parameter."""
    statement = tree.statement_at(line)
    holder = _holder(statement) if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr)) else None
    if isinstance(statement, ast.Expr) and called_name(statement.value) in _SETS:
        return _attribute_set(tree, statement.value)
    if isinstance(holder, ast.Name):
        return _attribute_of(tree, holder)
    return holder.attr if holder is not None and last_name(holder.value) == "self" else None


def _attribute_set(tree: SourceTree, call: ast.expr) -> str | None:
    """The attribute that ``setattr(self, name, value)`` sets; of a loop over names, the first one."""
    if not isinstance(call, ast.Call) or len(call.args) != _OF_SETATTR or not _is_plain(call.args[2]):
        return None
    names = [each for each in ast.walk(call.args[1]) if isinstance(each, (ast.Name, ast.Constant))]
    if last_name(call.args[0]) != "self" or not names:
        return None
    given = [each.iter for each in tree.loops_around(call) if isinstance(each, ast.For)]
    values = (
        each.value for value in (call.args[1], *given) for each in ast.walk(value) if isinstance(each, ast.Constant)
    )
    return next((value for value in values if isinstance(value, str) and value.isidentifier()), None)


_SETS = frozenset({"setattr", "__setattr__"})
_OF_SETATTR = 3


def _holder(statement: ast.stmt) -> ast.Name | ast.Attribute | None:
    """The variable that a statement sets, or in whose dict or list it puts something."""
    target: ast.expr | None = None
    if isinstance(statement, ast.Assign) and _is_plain(statement.value):
        target = statement.targets[0]
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            pairs = zip(target.elts, statement.value.elts, strict=False)
            # One line makes all of them, so the first that is computed stands for all.
            target = next((each for each, value in pairs if isinstance(value, (ast.Call, ast.BinOp))), None)
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None and _is_plain(statement.value):
        target = statement.target
    elif isinstance(statement, ast.Expr) and called_name(statement.value) in _PUT_IN:
        call = statement.value
        is_plain = isinstance(call, ast.Call) and all(_is_plain(each) for each in call.args)
        target = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
        target = target if is_plain else None
    while isinstance(target, ast.Subscript):
        target = target.value
    return target if isinstance(target, (ast.Name, ast.Attribute)) else None


def _is_plain(value: ast.expr) -> bool:
    """Whether it makes no object of a class, which may do with its arguments what it likes."""
    calls = (each for each in ast.walk(value) if isinstance(each, ast.Call))
    names = (last_name(call.func) for call in calls)
    return not any(name[:1].isupper() and not name.endswith("Tensor") for name in names)


def _attribute_of(tree: SourceTree, name: ast.Name) -> str | None:
    """The attribute that gets a local variable, or a dict or list with it."""
    scope = tree.scope(name)
    for target, value in tree.assignments:
        is_own = isinstance(target, ast.Attribute) and last_name(target.value) == "self"
        if is_own and isinstance(target, ast.Attribute) and tree.scope(target) is scope and _contains(value, name.id):
            return target.attr
    return None


def _contains(value: ast.expr, name: str) -> bool:
    if isinstance(value, ast.Call) and called_name(value) in _CONTAINERS and value.args:
        return _contains(value.args[0], name)
    if isinstance(value, ast.Dict):
        return any(_contains(each, name) for each in value.values)
    if isinstance(value, _DISPLAYS):
        return any(_contains(each, name) for each in value.elts)
    return isinstance(value, ast.Name) and value.id == name


def is_in_a_module(case: Case, made: Location) -> bool:
    """Whether the class around a line is a module, as far as its text tells."""
    for number in range(made.line - 1, 0, -1):
        found = _CLASS.match(case.source_line(Location(made.file, number)) or "")
        if found is not None:
            bases = found["bases"] or ""
            return "Module" in bases or "nn." in bases
    return False
