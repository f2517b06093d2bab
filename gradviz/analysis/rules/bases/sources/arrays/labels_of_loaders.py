"""Results of a loader that shuffles, which are collected and compared with the labels that its data set has stored.

>>> tree = SourceTree(dict(enumerate('''loader = DataLoader(data, batch_size=8, shuffle=True)
... found = []
... for x, y in loader:
...     found.extend(model(x).argmax(1).tolist())
... print(np.mean(np.array(found) == data.targets))
... '''.splitlines(), start=1)))
>>> [(each.loader, each.compared, each.labels) for each in compared_in_stored_order(tree)]
[(1, 5, 'data.targets')]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.source_tree import Key, SourceTree, called_name, names_in

_SCORES = frozenset({
    "accuracy_score", "f1_score", "roc_auc_score", "confusion_matrix", "mean_squared_error", "mean_absolute_error",
    "balanced_accuracy_score", "average_precision_score", "eq", "equal",
})  # fmt: skip
_WITHOUT_ORDER = frozenset({
    "bincount", "sorted", "sort", "sum", "mean", "len", "set", "Counter", "unique", "shape", "min", "max",
})  # fmt: skip
_WRAPS = frozenset({"enumerate", "tqdm"})
_MAX_NAMES = 4


class InStoredOrder(Struct, frozen=True):
    """The line of a loader, and the line that compares what was collected from it with stored labels."""

    loader: int
    compared: int
    labels: str


def compared_in_stored_order(tree: SourceTree) -> Iterator[InStoredOrder]:
    """In the order of the loops."""
    shuffled = {
        key: value
        for target, value in tree.assignments
        if _shuffles(value) and (key := tree.key_of(target)) is not None and tree.times_bound(key) == 1
    }
    for loop in tree.nodes:
        loader = shuffled.get(tree.key_of(_iterated(loop.iter))) if isinstance(loop, ast.For) else None  # type: ignore[arg-type]
        if loader is None or not isinstance(loop, ast.For) or not isinstance(loader, ast.Call) or not loader.args:
            continue
        kept = set(_collected(tree, loop))
        stored = ast.unparse(loader.args[0])
        for node in tree.nodes:
            labels = _labels_beside(tree, node, kept, stored) if kept else None
            if labels is not None and getattr(node, "lineno", 0) > loop.lineno:
                yield InStoredOrder(loader.lineno, getattr(node, "lineno", 0), labels)
                break


def _shuffles(value: ast.expr) -> bool:
    named = value.keywords if isinstance(value, ast.Call) and called_name(value) == "DataLoader" else []
    return any(
        each.arg == "shuffle" and isinstance(each.value, ast.Constant) and each.value.value is True for each in named
    )


def _iterated(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Call) and called_name(node) in _WRAPS and node.args:
        node = node.args[0]
    return node


def _collected(tree: SourceTree, loop: ast.For) -> Iterator[Key]:
    """The lists to which a loop adds something else than what it takes itself."""
    taken = names_in(loop.target)
    for node in ast.walk(loop):
        match node:
            case ast.Call(func=ast.Attribute(value=held, attr="append" | "extend"), args=[given]):
                key = tree.key_of(held)
            case ast.AugAssign(target=held, op=ast.Add(), value=given):
                key = _key_of_list(tree, held)
            case _:
                continue
        if key is not None and not names_in(given) <= taken:
            yield key


def _key_of_list(tree: SourceTree, node: ast.expr) -> Key | None:
    """A variable that begins as a list: a number that is added up has no order."""
    key = tree.key_of(node)
    begun = tree.values_of(key)
    return key if any(isinstance(value, ast.List) or called_name(value) == "list" for value in begun) else None


def _labels_beside(tree: SourceTree, node: ast.AST, kept: set[Key], stored: str) -> str | None:
    """The stored labels that a node compares with what was collected."""
    match node:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            sides = [left, right]
        case ast.Call(args=[one, other, *_]) if called_name(node) in _SCORES:
            sides = [one, other]
        case _:
            return None
    if any(called_name(part) in _WITHOUT_ORDER for side in sides for part in ast.walk(side)):
        return None
    for one, other in (sides, sides[::-1]):
        if _is_made_of(tree, one, kept):
            parts = (part for part in ast.walk(other) if not _is_put_in_order(tree.parent(part)))
            return next((text for part in parts if (text := _stored_part(part, stored))), None)
    return None


def _is_put_in_order(node: ast.AST | None) -> bool:
    """``labels[places]``: what is computed as an index may bring the order of the loader, or take it back."""
    return isinstance(node, ast.Subscript) and isinstance(node.slice, (ast.Name, ast.Call, ast.Attribute))


def _stored_part(node: ast.AST, stored: str) -> str:
    """``data.targets``"""
    is_of_data = isinstance(node, ast.Attribute) and ast.unparse(node.value) == stored
    return ast.unparse(node) if is_of_data else ""


def _is_made_of(tree: SourceTree, node: ast.expr, kept: set[Key]) -> bool:
    """Whether an expression is computed of lists, perhaps by way of variables."""
    for _ in range(_MAX_NAMES):
        if any(_is_put_in_order(part) for part in ast.walk(node)):
            return False
        keys = {key for part in ast.walk(node) if (key := tree.key_of(part)) is not None}
        if keys & kept:
            return True
        given = [value for target, value in tree.assignments if tree.key_of(target) in keys]
        if len(given) != 1:
            return False
        node = given[0]
    return False
