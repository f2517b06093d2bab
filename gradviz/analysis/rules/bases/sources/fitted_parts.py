"""Scalers and encoders that a program fits to several parts of one split.

>>> tree = SourceTree(dict(enumerate('''a, b, y, z = train_test_split(data, wanted)
... c, d = data[:80], data[80:]
... a = scaler.fit_transform(a)
... b = scaler.fit_transform(b)
... y, z = Encoder().fit_transform(y), Encoder().fit_transform(z.values)
... c, d = other.fit_transform(c), other.transform(d)
... '''.splitlines(), start=1)))
>>> [(each.name, each.other, each.line, each.first_line) for each in fitted_twice(tree)]
[('b', 'a', 4, 3), ('z', 'y', 5, 5)]
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.rules.bases.sources.source_tree import SourceTree, called_name

_SPLITS = frozenset({"train_test_split", "random_split"})
_PAIR = 2


class FittedTwice(Struct, frozen=True):
    """Two calls of ``fit_transform()``, of one object or of two of one class, with parts of one split."""

    name: str
    line: int
    other: str
    first_line: int


def fitted_twice(tree: SourceTree) -> Iterator[FittedTwice]:
    """The second of each two such calls, where nothing is fitted in a loop."""
    part_of = _parts(tree)
    fitted: dict[tuple[str, int], list[tuple[str, int, int]]] = defaultdict(list)
    calls = (node for node in tree.nodes if isinstance(node, ast.Call) and called_name(node) == "fit_transform")
    for call in sorted(calls, key=lambda each: (each.lineno, each.col_offset)):
        name = _root(call.args[0]) if call.args else None
        if name not in part_of or not isinstance(call.func, ast.Attribute) or any(tree.loops_around(call)):
            continue
        split, side = part_of[name]
        before = fitted[_fitted_object(call.func.value), split]
        other = next((each for each in before if each[2] != side), None)
        if other is not None:
            yield FittedTwice(name, call.lineno, other[0], other[1])
        before.append((name, call.lineno, side))


def _fitted_object(node: ast.expr) -> str:
    """A variable, or the class of an object that is made on the spot."""
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)


def _root(node: ast.expr) -> str | None:
    """``x`` of ``x[["a", "b"]]`` and ``x.values``, which are the same rows."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _parts(tree: SourceTree) -> dict[str, tuple[int, int]]:
    """By name of a part: the line of the split, or the number of the data that two slices split, and which part it
    is."""
    found: dict[str, tuple[int, int]] = {}
    sliced: dict[str, int] = {}
    for target, value in tree.assignments:
        if isinstance(target, ast.Tuple) and called_name(value) in _SPLITS:
            names = [each.id if isinstance(each, ast.Name) else "" for each in target.elts]
            found |= {name: (target.lineno, index % _PAIR) for index, name in enumerate(names) if name}
        elif isinstance(target, ast.Name) and isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice):
            part = value.slice
            if part.step is None and (part.lower is None) != (part.upper is None):
                data = -1 - sliced.setdefault(ast.unparse(value.value), len(sliced))
                found[target.id] = data, int(part.upper is None)
    return found
