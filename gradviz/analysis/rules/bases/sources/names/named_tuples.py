"""Named tuples of a program: the names of their fields, in order.

>>> tree = SourceTree(dict(enumerate('''class Sample(NamedTuple):
...     mean: Tensor
...     scale: Tensor
... Pair = namedtuple("Pair", "first second")
... '''.splitlines(), start=1)))
>>> [(name, each.fields, each.line) for name, each in named_tuples(tree).items()]
[('Sample', ['mean', 'scale'], 1), ('Pair', ['first', 'second'], 4)]
"""

from __future__ import annotations

import ast

from msgspec import Struct

from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_name


class NamedTuple(Struct, frozen=True):
    """One class of them."""

    fields: list[str]
    line: int


_PARTS = 2


def named_tuples(tree: SourceTree) -> dict[str, NamedTuple]:
    """By name, those that a file defines, also with ``namedtuple()``; dataclasses are no tuples."""
    found: dict[str, NamedTuple] = {}
    for node in tree.nodes:
        if isinstance(node, ast.ClassDef) and any(last_name(base) == "NamedTuple" for base in node.bases):
            fields = [last_name(each.target) for each in node.body if isinstance(each, ast.AnnAssign)]
            found[node.name] = NamedTuple(fields, node.lineno)
    for target, value in tree.assignments:
        is_made = called_name(value) in ("namedtuple", "NamedTuple") and isinstance(target, ast.Name)
        if is_made and isinstance(target, ast.Name) and isinstance(value, ast.Call) and len(value.args) == _PARTS:
            found[target.id] = NamedTuple(_fields(value.args[1]), target.lineno)
    return found


def _fields(given: ast.expr) -> list[str]:
    """The names in ``"a b"``, ``["a", "b"]`` or ``[("a", Tensor), ("b", Tensor)]``."""
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        return given.value.replace(",", " ").split()
    parts = given.elts if isinstance(given, ast.List | ast.Tuple) else []
    names = [each.elts[0] if isinstance(each, ast.Tuple) and each.elts else each for each in parts]
    return [each.value for each in names if isinstance(each, ast.Constant) and isinstance(each.value, str)]
