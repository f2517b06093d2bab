"""Windows that are scaled by their own mean before they are cut into what a model reads and what it forecasts.

>>> tree = SourceTree(dict(enumerate('''def item(series, i):
...     w = series[i : i + 25]
...     w = (w - np.mean(w)) / np.std(w)
...     return w[:20], w[20:]
... def other(series, i):
...     w = series[i : i + 25]
...     w = w - w[:20].mean()
...     return w[:20], w[20:]
... '''.splitlines(), start=1)))
>>> list(windows_scaled_whole(tree))
[WindowScaled(scaled=3, cut=4, name='w')]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.rules.bases.sources.arrays.resolved_values import taken_by
from gradviz.analysis.sources.source_tree import SourceTree, called_name, first_line

_MEANS = frozenset({"mean", "median", "min", "average"})
_JOINS = frozenset({"stack", "vstack", "hstack", "concatenate", "cat", "column_stack"})


class WindowScaled(Struct, frozen=True):
    """The line that takes the mean of a window off it, and the line that cuts it in two."""

    scaled: int
    cut: int
    name: str


def windows_scaled_whole(tree: SourceTree) -> Iterator[WindowScaled]:
    """Those of functions, in the order of the source."""
    for target, value in tree.assignments:
        scope = tree.scope(target)
        if not isinstance(target, ast.Name) or not first_line(scope):
            continue
        window = next(
            (node.left for each in ast.walk(value) if (node := _takes_own_mean(tree, each)) is not None), None
        )
        cut = None if window is None else _cut_in_two(tree, target)
        if cut is not None and _is_slice(tree, window, target):
            yield WindowScaled(target.lineno, cut, target.id)


def _takes_own_mean(tree: SourceTree, node: ast.AST) -> ast.BinOp | None:
    """``w - w.mean()``, ``w - np.mean(w)``, and ``w - mu`` where ``mu = w.mean()``."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub) or not isinstance(node.left, ast.Name):
        return None
    key = tree.key_of(node.right)
    given = tree.values_of(key)
    means = [node.right] if key is None else given if tree.times_bound(key) == 1 else []
    return node if any(_is_mean_of(each, node.left.id) for each in means) else None


def _is_mean_of(node: ast.expr, name: str) -> bool:
    taken = taken_by(node) if called_name(node) in _MEANS and isinstance(node, ast.Call) else None
    return isinstance(taken, ast.Name) and taken.id == name


def _cut_in_two(tree: SourceTree, target: ast.Name) -> int | None:
    """The line that takes both ``w[:n]`` and ``w[n:]`` after that, if nothing else cuts it, and nothing joins both."""
    scope, heads, tails = tree.scope(target), dict[str, int](), dict[str, int]()
    if any(called_name(node) in _JOINS for node in ast.walk(scope) if getattr(node, "lineno", 0) > target.lineno):
        return None
    for node in ast.walk(scope):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Slice(lower=lower, upper=upper, step=None)) if (
                name == target.id and node.lineno > target.lineno
            ):
                if lower is None and upper is not None:
                    heads[ast.unparse(upper)] = node.lineno
                elif upper is None and lower is not None:
                    tails[ast.unparse(lower)] = node.lineno
    both = heads.keys() & tails.keys()
    return max(heads[next(iter(both))], tails[next(iter(both))]) if len(both) == 1 else None


def _is_slice(tree: SourceTree, window: ast.expr | None, target: ast.Name) -> bool:
    """Whether the window is cut out of a series, or read by its number: not a whole series that is split in time."""
    name = window.id if isinstance(window, ast.Name) else ""
    scope = tree.scope(target)
    given = [value for one, value in tree.assignments if getattr(one, "id", "") == name and tree.scope(one) is scope]
    return any(isinstance(each, ast.Subscript) for value in given for each in ast.walk(value))
