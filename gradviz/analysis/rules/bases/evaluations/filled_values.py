"""Numbers that a program writes where values are missing, and means of the same data that count them.

>>> tree = SourceTree(dict(enumerate('''table = np.nan_to_num(table, nan=-1.0)
... mu, sd = table[:400].mean(axis=0), table[:400].std(axis=0)
... table = (table - mu) / sd
... '''.splitlines(), start=1)))
>>> [(each.number, each.filled, each.averaged) for each in filled_and_averaged(tree)]
[(-1.0, 1, 2)]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

from gradviz.analysis.sources.source_tree import SourceTree, called_name

CODES = frozenset(
    {-1, *(sign * number for sign in (-1, 1) for number in (99, 999, 9_999, 99_999, 999_999)), -9, -8_888}
)
"""Numbers that stand for a missing value."""
_MISSING = frozenset({"isnan", "isna", "isnull"})
_MEANS = frozenset({"mean", "average"})
_SCALERS = frozenset({"StandardScaler", "MinMaxScaler"})
_FITS = frozenset({"fit", "fit_transform"})
_CONVERT = frozenset({"astype", "copy", "to_numpy", "reset_index"})
_ALL_THREE = 3


class FilledValues(Struct, frozen=True):
    """Data in which a number stands for missing values, and the line that takes the mean of them."""

    number: float
    filled: int
    averaged: int


def filled_and_averaged(tree: SourceTree, known: Mapping[int, float] = MappingProxyType({})) -> Iterator[FilledValues]:
    """Those of each function, in the order of the source; each line that fills once.

    Args:
        known: lines that bring data with such a number, and the number.
    """
    for node in tree.nodes:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        is_known = node.lineno in known and isinstance(node.targets[0], ast.Name)
        filled = (ast.unparse(node.targets[0]), known[node.lineno]) if is_known else _filled(node)
        if filled is None:
            continue
        data, number = filled
        scope = tree.scope(node)
        later = [each for each in tree.nodes if getattr(each, "lineno", 0) > node.lineno and tree.scope(each) is scope]
        averaged = next((each for each in later if _averages(tree, each, data)), None)
        if averaged is not None:
            yield FilledValues(number, node.lineno, getattr(averaged, "lineno", node.lineno))


def _filled(statement: ast.Assign) -> tuple[str, float] | None:
    """The data and the number in ``x[isnan(x)] = -1``, ``x = nan_to_num(x, nan=-1)``, ``x = x.fillna(-1)`` and
    ``x = where(isnan(x), -1, x)``."""
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Subscript) and _is_missing(target.slice):
        return _coded(target.value, value)
    while called_name(value) in _CONVERT and isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        value = value.func.value
    if not isinstance(value, ast.Call):
        return None
    name, given = called_name(value), {each.arg: each.value for each in value.keywords}
    if name == "nan_to_num" and "nan" in given:
        return _coded(target, given["nan"])
    if name == "fillna":
        return _coded(target, given.get("value", value.args[0] if value.args else target))
    if name == "where" and len(value.args) == _ALL_THREE and _is_missing(value.args[0]):
        return _coded(target, value.args[1])
    return None


def _is_missing(mask: ast.expr) -> bool:
    return called_name(mask) in _MISSING


def _coded(data: ast.expr, value: ast.expr) -> tuple[str, float] | None:
    is_negative = isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub)
    number = value.operand if isinstance(value, ast.UnaryOp) else value
    if not isinstance(number, ast.Constant) or not isinstance(number.value, int | float):
        return None
    found = -number.value if is_negative else number.value
    return (ast.unparse(data), found) if found in CODES else None


def _averages(tree: SourceTree, node: ast.AST, data: str) -> bool:
    """Whether a node is the mean of all these data, by which they are standardized, or fits a scaler on them."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    name, args = node.func.attr, node.args
    if name in _FITS:
        scaler = node.func.value
        made = [scaler, *(value for target, value in tree.assignments if ast.unparse(target) == ast.unparse(scaler))]
        return any(called_name(each) in _SCALERS for each in made) and bool(args) and _is_whole(tree, args[0], data)
    if name not in _MEANS:
        return False
    taken = [node.func.value, *args[:1]]
    return any(_is_whole(tree, each, data) for each in taken) and _is_standardized(tree, data)


def _is_whole(tree: SourceTree, value: ast.expr, data: str) -> bool:
    """Whether an expression is the data, or some rows or columns of them, not those that a mask chooses."""
    while ast.unparse(value) != data:
        if isinstance(value, ast.Name):
            part = _part_of(tree, value)
            if part is None or ast.unparse(part) == ast.unparse(value):
                return False
            value = part
            continue
        if not isinstance(value, ast.Subscript) or _chooses(tree, value.slice):
            return False
        value = value.value
    return True


def _part_of(tree: SourceTree, name: ast.Name) -> ast.expr | None:
    """What a variable is a part of that is given some rows, or one of the parts of a split, and nothing else: some
    columns may be those that miss nothing."""
    key = tree.key_of(name)
    if key is None or tree.times_bound(key) != 1:
        return None
    for target, value in tree.assignments:
        if tree.key_of(target) == key and isinstance(value, ast.Subscript):
            has_columns = isinstance(value.slice, ast.Tuple) and ast.unparse(value.slice.elts[-1]) not in (":", "...")
            return None if has_columns else value
        is_split = isinstance(target, ast.Tuple) and called_name(value) == "train_test_split"
        if is_split and any(tree.key_of(each) == key for each in target.elts[:2]):  # type: ignore[attr-defined]
            return value.args[0] if isinstance(value, ast.Call) and value.args else None
    return None


def _chooses(tree: SourceTree, index: ast.expr) -> bool:
    given = (value for target, value in tree.assignments if ast.unparse(target) == ast.unparse(index))
    return any(
        isinstance(each, (ast.Compare, ast.Invert)) or called_name(each) in _MISSING
        for value in (index, *given)
        for each in ast.walk(value)
    )


def _is_standardized(tree: SourceTree, data: str) -> bool:
    """Whether something is taken off the data, and what is left is divided."""
    for node in tree.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and _is_whole(tree, node.left, data):
            around = tree.parent(node)
            if isinstance(around, ast.BinOp) and isinstance(around.op, ast.Div) and around.left is node:
                return True
    return False
