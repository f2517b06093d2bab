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

from gradviz.analysis.rules.bases.sources.source_tree import Key, SourceTree, called_name

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
        filled = next((line for line in _filled(tree, key)), None)
        mean = None if filled is None else _mean_taken_off(tree, key)
        if filled is not None and mean is not None and mean > filled:
            yield PaddedArray(filled, mean, target.id)


def _filled(tree: SourceTree, key: Key) -> Iterator[int]:
    """The lines ``batch[row, : length] = ...`` in a loop."""
    for target, _ in tree.assignments:
        if not isinstance(target, ast.Subscript) or tree.key_of(target.value) != key:
            continue
        match target.slice:
            case ast.Tuple(elts=[ast.Name(), ast.Slice(lower=None, upper=length, step=None), *_]):
                is_of_sequence = length is not None and not isinstance(length, ast.Constant)
                if is_of_sequence and any(tree.loops_around(target)):
                    yield target.lineno


def _mean_taken_off(tree: SourceTree, key: Key) -> int | None:
    """The line that takes the mean of the whole array, if that is subtracted from the array."""
    for node in tree.nodes:
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub) or tree.key_of(node.left) != key:
            continue
        own = tree.key_of(node.right)
        given = [value for target, value in tree.assignments if own is not None and tree.key_of(target) == own]
        for mean in given or [node.right]:
            if called_name(mean) == "mean" and isinstance(mean, ast.Call) and tree.key_of(_taken(mean)) == key:
                return None if any(each.arg == "where" for each in mean.keywords) else mean.lineno
    return None


def _taken(call: ast.Call) -> ast.expr:
    """``x`` of ``x.mean(1)`` and of ``np.mean(x, axis=1)``."""
    holder = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    is_function = isinstance(holder, ast.Name) and holder.id in _ARRAYS
    return call.args[0] if is_function and call.args else holder
