"""Arrays of zeros that a loop fills with sequences of several lengths, and of which the mean counts all places.

>>> tree = SourceTree(dict(enumerate('''def collate(items):
...     batch = np.zeros((len(items), longest, 5))
...     for row, item in enumerate(items):
...         batch[row, : len(item)] = item
...     mean = batch.mean(axis=1, keepdims=True)
...     return (batch - mean) / batch.std(axis=1, keepdims=True)
... '''.splitlines(), start=1)))
>>> [(each.filled, each.averaged, each.name) for each in padded_and_centred(tree)]
[(4, 5, 'batch')]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.rules.bases.sources.arrays.resolved_values import taken_by
from gradviz.analysis.sources.source_tree import Key, SourceTree, called_name, names_in

_ZEROS = frozenset({"zeros", "zeros_like"})
_ARRAYS = frozenset({"np", "numpy"})


class PaddedArray(Struct, frozen=True):
    """The line that fills the rows of an array, and the line that takes the mean of all places."""

    filled: int
    averaged: int
    name: str


def padded_and_centred(tree: SourceTree) -> Iterator[PaddedArray]:
    """In the order of the source."""
    for target, value in tree.assignments:
        key = tree.key_of(target)
        if key is None or called_name(value) not in _ZEROS or not isinstance(target, ast.Name):
            continue
        filled = next(_filled(tree, key), None)
        mean = None if filled is None else _mean_taken_off(tree, key)
        if filled is not None and mean is not None and mean > filled:
            yield PaddedArray(filled, mean, target.id)


def _filled(tree: SourceTree, key: Key) -> Iterator[int]:
    """The lines ``batch[row, : length] = ...`` in a loop that gives each row a length of its own, where nothing fills
    the rest of the row."""
    written = [
        target
        for target, _ in tree.assignments
        if isinstance(target, ast.Subscript) and tree.key_of(target.value) == key
    ]
    for target in written:
        match target.slice:
            case ast.Tuple(elts=[ast.Name(), ast.Slice(lower=None, upper=ast.expr() as length, step=None), *_]):
                loop = next(tree.loops_around(target), None)
                is_of_row = isinstance(loop, ast.For) and bool(names_in(length) & _changed_in(tree, loop))
                if is_of_row and not any(_begins_at(each, length) for each in written):
                    yield target.lineno


def _changed_in(tree: SourceTree, loop: ast.For) -> set[str]:
    """The names to which each turn of a loop gives another value."""
    inside = (target for target, _ in tree.assignments if loop in tree.loops_around(target))
    return names_in(loop.target).union(*(names_in(each) for each in inside if not isinstance(each, ast.Subscript)))


def _begins_at(target: ast.Subscript, length: ast.expr) -> bool:
    """``batch[row, length:]``"""
    parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else []
    lower = [each.lower for each in parts if isinstance(each, ast.Slice) and each.lower is not None]
    return any(ast.unparse(each) == ast.unparse(length) for each in lower)


def _mean_taken_off(tree: SourceTree, key: Key) -> int | None:
    """The line that takes the mean of the whole array, if that is subtracted from the array."""
    for node in tree.nodes:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub) or tree.key_of(node.left) != key:
            continue
        own = tree.key_of(node.right)
        given = tree.values_of(own)
        for mean in given or [node.right]:
            if not isinstance(mean, ast.Call) or called_name(mean) != "mean":
                continue
            taken = taken_by(mean, _ARRAYS)
            if taken is not None and tree.key_of(taken) == key:
                return None if any(each.arg == "where" for each in mean.keywords) else mean.lineno
    return None
