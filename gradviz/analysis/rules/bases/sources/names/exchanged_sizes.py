"""Reshapes that name the sizes of a tensor in another order than the line that took them from its shape.

>>> lines = '''def forward(x):
...     b, t, m = x.shape
...     return x.reshape(b * m, t)'''.splitlines()
>>> exchanged_sizes(SourceTree(dict(enumerate(lines, start=1))), 3, (2, 5, 3), (6, 5))
Exchanged(line=2, names=('b', 't', 'm'), pair=('t', 'm'))
>>> exchanged_sizes(SourceTree(dict(enumerate(lines, start=1))), 3, (2, 3, 5), (6, 5))
>>> exchanged_sizes(SourceTree(dict(enumerate(lines, start=1))), 3, (2, 2, 3), (6, 2)).pair
('t', 'm')
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod

from msgspec import Struct

from gradviz.analysis.sources.source_tree import SourceTree, called_name, is_read


class Exchanged(Struct, frozen=True):
    """Sizes that a reshape puts into another order."""

    line: int
    """The line that took them: ``b, t, m = x.shape``."""
    names: tuple[str, ...]
    pair: tuple[str, str]
    """Two names that changed places, in their first order."""


@lru_cache(maxsize=1024)
def exchanged_sizes(tree: SourceTree, line: int, given: tuple[int, ...], made: tuple[int, ...]) -> Exchanged | None:
    """Those of a ``reshape()`` or ``view()`` on a line; None where the sizes that ran do not agree with their names,
    as after a transposition, or do not tell them apart, and it reshapes another variable than these were taken of.

    Args:
        given: the shape that the reshape got.
        made: the shape that it returned.
    """
    statement = tree.statement_at(line)
    calls = [node for node in ast.walk(statement) if called_name(node) in ("reshape", "view")] if statement else []
    for call in calls:
        arguments = call.args if isinstance(call, ast.Call) else []
        if len(arguments) == 1 and isinstance(arguments[0], ast.Tuple):
            arguments = arguments[0].elts
        parts = [_factors(each) for each in arguments]
        words = [name for factors in parts for name in factors or ()]
        taken = _taken(tree, call, words) if None not in parts and len(parts) == len(made) else None
        if taken is None or len(taken[1]) != len(given):
            continue
        first, names = taken
        sizes = dict(zip(names, given, strict=True))
        moved = [name for name in _in_full(parts, names) if sizes[name] != 1]
        is_apart = len({sizes[name] for name in moved}) == len(moved) or _is_of_same_tensor(tree, call, first)
        if not is_apart or not _agree(parts, sizes, made):
            continue
        order = [names.index(name) for name in moved]
        pair = next(((names[two], names[one]) for one, two in pairwise(order) if two < one), None)
        if pair is not None:
            return Exchanged(first, names, pair)
    return None


_UNKNOWN = ""
"""Stands for ``-1``: the sizes that are left."""


def _factors(size: ast.expr) -> tuple[str, ...] | None:
    """``b * m`` as names; None for what is no product of names."""
    if isinstance(size, ast.Name):
        return (size.id,)
    if isinstance(size, ast.UnaryOp) and isinstance(size.op, ast.USub):
        return (_UNKNOWN,)
    if isinstance(size, ast.Constant) and size.value == 1:
        return ()
    if isinstance(size, ast.BinOp) and isinstance(size.op, ast.Mult):
        left, right = _factors(size.left), _factors(size.right)
        return None if left is None or right is None else left + right
    return None


def _taken(tree: SourceTree, call: ast.AST, words: list[str]) -> tuple[int, tuple[str, ...]] | None:
    """The last line above a call, in its function, that takes the sizes it names from a shape, with all their names."""
    named, scope = {each for each in words if each != _UNKNOWN}, tree.scope(call)
    found: tuple[int, tuple[str, ...]] | None = None
    for target, value in tree.assignments:
        is_shape = (isinstance(value, ast.Attribute) and value.attr == "shape") or called_name(value) == "size"
        names = [each.id for each in target.elts if isinstance(each, ast.Name)] if isinstance(target, ast.Tuple) else []
        if not is_shape or not isinstance(target, ast.Tuple) or len(names) != len(target.elts) or not named:
            continue
        if tree.scope(target) is scope and target.lineno < getattr(call, "lineno", 0) and named <= {*names}:
            found = target.lineno, tuple(names)
    return found if found is not None and len({*found[1]}) == len(found[1]) else None


def _is_of_same_tensor(tree: SourceTree, call: ast.AST, taken: int) -> bool:
    """Whether a call reshapes the very variable whose sizes were taken: then the names alone tell the axes apart."""
    given = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    statement, scope = tree.statement_at(taken), tree.scope(call)
    if not isinstance(given, ast.Name) or not isinstance(statement, ast.Assign):
        return False
    value = statement.value.func if isinstance(statement.value, ast.Call) else statement.value
    owner = value.value if isinstance(value, ast.Attribute) else None
    assigned = (
        each for each in ast.walk(scope) if isinstance(each, ast.Name) and each.id == given.id and not is_read(each)
    )
    is_kept = not any(taken < each.lineno < given.lineno for each in assigned)
    return isinstance(owner, ast.Name) and owner.id == given.id and is_kept


def _in_full(parts: list[tuple[str, ...] | None], names: tuple[str, ...]) -> list[str]:
    """The names in the order of the new axes, with those that ``-1`` stands for in its place."""
    written = [name for factors in parts for name in factors or ()]
    left = [name for name in names if name not in written]
    return [each for name in written for each in (left if name == _UNKNOWN else [name])]


def _agree(parts: list[tuple[str, ...] | None], sizes: dict[str, int], made: Sequence[int]) -> bool:
    """Whether the new axes have the sizes that the names say."""
    return all(
        _UNKNOWN in (factors or ()) or prod(sizes[name] for name in factors or ()) == size
        for factors, size in zip(parts, made, strict=True)
    )
