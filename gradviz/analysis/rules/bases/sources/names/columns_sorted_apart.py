"""Columns of one batch of which a function sorts one, and returns another one in the order of before.

>>> lines = '''def collate(items):
...     series, targets = zip(*items)
...     series = sorted(series, key=len, reverse=True)
...     return pad_sequence(series), torch.stack(targets)
... def paired(items):
...     items = sorted(items, key=lambda each: len(each[0]))
...     series, targets = zip(*items)
...     return pad_sequence(series), torch.stack(targets)
... '''.splitlines()
>>> list(columns_sorted_apart(SourceTree(dict(enumerate(lines, start=1)))))
[SortedColumn(name='series', other='targets', line=3, returned=(4, 4))]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, called_name, last_line


class SortedColumn(Struct, frozen=True):
    """A column that is sorted by itself, and another one that is returned with it as it was."""

    name: str
    other: str
    line: int
    returned: tuple[int, int]
    """The first and the last line of the ``return``."""


def columns_sorted_apart(tree: SourceTree) -> Iterator[SortedColumn]:
    """Those that ``zip(*items)`` has taken apart, in the same function."""
    for node in tree.nodes:
        names = _columns(node)
        function = tree.scope(node) if names else None
        if not isinstance(function, FUNCTIONS):
            continue
        inside = [each for each in ast.walk(function) if isinstance(each, ast.stmt)]
        ordered = {name: each.lineno for each in inside for name in names if _sorts(each, name)}
        kept = [name for name in names if name not in ordered and not _is_set_again(inside, node, name)]
        for end in inside:
            read = {each.id for each in ast.walk(end) if isinstance(each, ast.Name)}
            other = next((name for name in kept if name in read), None) if isinstance(end, ast.Return) else None
            first = next((name for name in ordered if name in read), None)
            if len(ordered) == 1 and other is not None and first is not None and ordered[first] < end.lineno:
                yield SortedColumn(first, other, ordered[first], (end.lineno, last_line(end)))


def _columns(node: ast.AST) -> list[str]:
    """The names of ``x, y = zip(*items)``."""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Tuple):
        return []
    value, names = node.value, [each.id for each in node.targets[0].elts if isinstance(each, ast.Name)]
    is_taken_apart = isinstance(value, ast.Call) and called_name(value) == "zip" and len(value.args) == 1
    return names if is_taken_apart and isinstance(value, ast.Call) and isinstance(value.args[0], ast.Starred) else []


def _sorts(statement: ast.stmt, name: str) -> bool:
    """``name = sorted(name, key=len)``, or ``name.sort()``."""
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
        is_own = [ast.unparse(each) for each in statement.targets] == [name]
        given = statement.value.args[:1]
        return is_own and called_name(statement.value) == "sorted" and [ast.unparse(each) for each in given] == [name]
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and ast.unparse(call.func) == f"{name}.sort"


def _is_set_again(inside: list[ast.stmt], first: ast.AST, name: str) -> bool:
    """Whether another statement binds a name, too, or changes what it holds."""
    for each in inside:
        targets = each.targets if isinstance(each, ast.Assign) and each is not first else []
        bound = [node for target in targets for node in ast.walk(target)]
        if any(isinstance(node, ast.Name) and node.id == name for node in bound):
            return True
        if isinstance(each, (ast.For, ast.AugAssign)) and name in ast.unparse(each.target):
            return True
    return False
