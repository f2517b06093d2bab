"""Tables of which some rows are repeated before ``train_test_split()`` divides them.

>>> tree = SourceTree(dict(enumerate('''def balance(x, y):
...     more = np.random.choice(np.where(y == 1)[0], 90)
...     return np.concatenate([x, x[more]]), np.concatenate([y, y[more]])
... x, y = balance(x, y)
... a, b, c, d = train_test_split(x, y)
... a, c = balance(a, c)
... '''.splitlines(), start=1)))
>>> list(repeated_before_split(tree))
[RepeatedBefore(repeated=4, split=5, name='x')]
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, called_name

_SPLIT = "train_test_split"
_JOINS = frozenset({"concatenate", "vstack", "cat", "concat", "append"})
_RESAMPLES = frozenset({"fit_resample", "fit_sample"})
_OVERSAMPLERS = re.compile(r"over|smote|adasyn", re.IGNORECASE)


class RepeatedBefore(Struct, frozen=True):
    """The line that repeats rows of a table, and the line that splits it."""

    repeated: int
    split: int
    name: str


def repeated_before_split(tree: SourceTree) -> Iterator[RepeatedBefore]:
    """In the order of the splits."""
    own = {node.name for node in tree.nodes if isinstance(node, FUNCTIONS) and _returns_more(tree, node)}
    for node in tree.nodes:
        if not isinstance(node, ast.Call) or called_name(node) != _SPLIT or not node.args:
            continue
        table, scope = node.args[0], tree.scope(node)
        if not isinstance(table, ast.Name):
            continue
        before = [
            (target.lineno, value)
            for target, value in tree.assignments
            if target.lineno < node.lineno and tree.scope(target) is scope and table.id in _names_given(target)
        ]
        line, value = max(before, key=lambda each: each[0], default=(0, None))
        if value is not None and _repeats(tree, value, own):
            yield RepeatedBefore(line, node.lineno, table.id)


def _names_given(target: ast.expr) -> set[str]:
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    return {each.id for each in parts if isinstance(each, ast.Name)}


def _repeats(tree: SourceTree, value: ast.expr, own: set[str]) -> bool:
    """Whether a value is a table with some of its rows again: by hand, by a function, or by an over-sampler."""
    if _joins_rows_again(value) or called_name(value) in own:
        return True
    if called_name(value) not in _RESAMPLES or not isinstance(value, ast.Call):
        return False
    sampler = value.func.value if isinstance(value.func, ast.Attribute) else value
    key = tree.key_of(sampler)
    made = [sampler, *tree.values_of(key)]
    return any(_OVERSAMPLERS.search(called_name(each)) for each in made)


def _returns_more(tree: SourceTree, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    returned = [each.value for each in ast.walk(function) if isinstance(each, ast.Return) and each.value is not None]
    names = {each.id for value in returned for each in ast.walk(value) if isinstance(each, ast.Name)}
    given = [
        value for target, value in tree.assignments if tree.scope(target) is function and _names_given(target) & names
    ]
    return any(_joins_rows_again(part) for value in (*returned, *given) for part in ast.walk(value))


def _joins_rows_again(node: ast.AST) -> bool:
    """``np.concatenate([x, x[more]])``, not ``np.concatenate([x, x[other]], axis=1)``, which puts columns beside."""
    if not isinstance(node, ast.Call) or called_name(node) not in _JOINS or not node.args:
        return False
    axes = [*node.args[1:], *(each.value for each in node.keywords if each.arg in ("axis", "dim"))]
    if any(ast.unparse(each) not in ("0", "'index'") for each in axes if not isinstance(each, ast.Subscript)):
        return False
    first = node.args[0]
    parts = first.elts if isinstance(first, (ast.List, ast.Tuple)) else node.args
    whole = {each.id for each in parts if isinstance(each, ast.Name)}
    again = {
        each.value.id
        for each in parts
        if isinstance(each, ast.Subscript)
        and isinstance(each.value, ast.Name)
        and not isinstance(each.slice, (ast.Slice, ast.Tuple, ast.Constant, ast.UnaryOp))
    }
    return bool(whole & again)
