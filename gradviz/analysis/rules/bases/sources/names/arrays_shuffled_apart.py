"""Two arrays that a program shuffles one after the other, each in another order, and the lines that compare them.

No call of torch shows what NumPy and Python shuffle.

>>> lines = '''rng.shuffle(x)
... rng.shuffle(y)
... x, y = torch.tensor(x), torch.tensor(y)
... for i in range(9):
...     loss = criterion(model(x[i:]), y[i:])
... '''.splitlines()
>>> list(arrays_shuffled_apart(SourceTree(dict(enumerate(lines, start=1)))))
[ShuffledArrays(first='x', second='y', first_line=1, second_line=2, compared=((5, 5),))]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.source_tree import Key, SourceTree, called_name, last_line

_SEED = frozenset({"seed", "manual_seed", "default_rng", "RandomState", "set_state", "setstate", "Random", "seed_all"})
_BOTH = 2
_NEAR = 4
_MAX_ROUNDS = 8

Sides = tuple[Key | None, ...]


class ShuffledArrays(Struct, frozen=True):
    """Two arrays, the lines that shuffle them, and the lines of calls that get one on each side."""

    first: str
    second: str
    first_line: int
    second_line: int
    compared: tuple[tuple[int, int], ...]


def arrays_shuffled_apart(tree: SourceTree) -> Iterator[ShuffledArrays]:
    for one, other in _pairs(tree):
        keys = [tree.key_of(each[1]) for each in (one, other)]
        if None in keys or keys[0] == keys[1]:
            continue
        compared = _compared(tree, [key for key in keys if key is not None], last_line(other[0]))
        if compared:
            yield ShuffledArrays(
                ast.unparse(one[1]), ast.unparse(other[1]), one[0].lineno, other[0].lineno, tuple(compared)
            )


def _pairs(tree: SourceTree) -> Iterator[tuple[tuple[ast.stmt, ast.expr], tuple[ast.stmt, ast.expr]]]:
    """Two statements of one block that shuffle, near each other, with no seed between them."""
    for node in tree.nodes:
        block = getattr(node, "body", None)
        before: tuple[int, ast.stmt, ast.expr] | None = None
        for number, statement in enumerate(block if isinstance(block, list) else ()):
            array = _shuffled(tree, statement)
            if array is not None:
                if before is not None and number - before[0] <= _NEAR:
                    yield before[1:], (statement, array)
                before = number, statement, array
            elif any(called_name(each) in _SEED for each in ast.walk(statement)):
                before = None


def _shuffled(tree: SourceTree, statement: ast.stmt) -> ast.expr | None:
    """The array that a statement shuffles: ``rng.shuffle(x)``, ``x = x[rng.permutation(n)]``."""
    if isinstance(statement, ast.Expr) and called_name(statement.value) == "shuffle":
        given = statement.value.args if isinstance(statement.value, ast.Call) else []
        return given[0] if len(given) == 1 and isinstance(given[0], ast.Name) else None
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target, value = statement.targets[0], statement.value
    drawn = value.slice if isinstance(value, ast.Subscript) else value
    if called_name(drawn) != "permutation" or not isinstance(drawn, ast.Call):
        return None
    array = value.value if isinstance(value, ast.Subscript) else drawn.args[0] if drawn.args else None
    is_own = isinstance(array, ast.Name) and isinstance(target, ast.Name) and array.id == target.id
    return target if is_own else None


def _compared(tree: SourceTree, keys: list[Key], after: int) -> list[tuple[int, int]]:
    """The calls behind a line that get what was made of one array at one place, and of the other at another place."""
    sides: dict[Key, Sides] = {key: (key,) for key in keys}
    for _ in range(_MAX_ROUNDS):
        known = len(sides)
        for target, value in _bindings(tree, after):
            _bind(tree, target, _sides(tree, sides, value), sides)
        if len(sides) == known:
            break
    found = list[tuple[int, int]]()
    for node in tree.nodes:
        if isinstance(node, ast.Call) and len(node.args) >= _BOTH and node.lineno > after:
            given = [_sides(tree, sides, each) for each in node.args[:_BOTH]]
            if {each[0] for each in given if len(each) == 1} == set(keys):
                found.append((node.lineno, last_line(node)))
    return found


def _bindings(tree: SourceTree, after: int) -> Iterator[tuple[ast.expr, ast.expr]]:
    yield from ((target, value) for target, value in tree.assignments if target.lineno > after)
    for node in tree.nodes:
        if isinstance(node, ast.For) and node.lineno > after and called_name(node.iter) != "range":
            yield node.target, node.iter


def _bind(tree: SourceTree, target: ast.expr, sides: Sides, known: dict[Key, Sides]) -> None:
    if isinstance(target, ast.Tuple):
        # ``for i, (x, y) in enumerate(loader)`` as well
        last = target.elts[-1]
        elements = last.elts if isinstance(last, ast.Tuple) else target.elts
        if len(elements) == len(sides):
            for each, side in zip(elements, sides, strict=True):
                _bind(tree, each, (side,), known)
        return
    key = tree.key_of(target)
    if key is not None and any(side is not None for side in sides):
        known.setdefault(key, sides)


def _sides(tree: SourceTree, known: dict[Key, Sides], value: ast.expr) -> Sides:
    """Of which array something is made; of a data set of two tensors, one for each."""
    if called_name(value) in ("TensorDataset", "zip") and isinstance(value, ast.Call):
        each = [_sides(tree, known, given) for given in value.args]
        return tuple(sides[0] if len(sides) == 1 else None for sides in each)
    found = {
        known[key]
        for node in ast.walk(value)
        if isinstance(node, ast.Name) and (key := tree.key_of(node)) is not None and key in known
    }
    return found.pop() if len(found) == 1 else (None,)
