"""Windows of an array and the values that follow them, which a loop cuts out one by one: where they begin and end.

>>> tree = SourceTree(dict(enumerate('''for i in range(len(s) - W):
...     X.append(s[i : i + W + 1])
...     y.append(s[i + W])
... '''.splitlines(), start=1)))
>>> [(each.line, each.window_at, each.shared) for each in targets_in_windows(tree)]
[(3, 2, 1)]
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.source_tree import COMPREHENSIONS, SourceTree, called_name

_MOST_BEHIND = 2
_KEEPING = frozenset({
    "append", "tensor", "as_tensor", "array", "asarray", "from_numpy", "FloatTensor", "Tensor", "float", "stack",
    "copy", "clone", "unsqueeze", "reshape", "view", "astype",
})  # fmt: skip
_Bound = dict[str, int]
"""A sum of names, each with its factor; the number stands at the empty name."""


class TargetInWindow(Struct, frozen=True):
    """An element of an array that is taken beside a window of the same array, and that is in it."""

    line: int
    window_at: int
    shared: int
    """How many elements of the window are at its place or behind it."""


class _Cut(Struct, frozen=True):
    """What one expression takes of an array."""

    node: ast.Subscript
    array: str
    columns: str
    """The indexes of the other axes, as source; empty where all are taken."""
    start: tuple[tuple[str, int], ...]
    end: tuple[tuple[str, int], ...]
    is_element: bool


def targets_in_windows(tree: SourceTree) -> Iterator[TargetInWindow]:
    """One for each place of a file where single elements are taken together with windows that have them at their end.

    None in a file that takes a part of each row of something, which may be what the model reads.
    """
    groups: dict[tuple[object, str], list[_Cut]] = defaultdict(list)
    if any(_cuts_rows(node) for node in tree.nodes):
        return
    for node in tree.nodes:
        if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
            continue
        cut = _cut(node)
        around = None if cut is None else _round(tree, node, cut)
        if cut is not None and around is not None:
            groups[around, cut.array].append(cut)
    for cuts in groups.values():
        windows = [each for each in cuts if not each.is_element]
        elements = [each for each in cuts if each.is_element]
        # If more are cut out beside them, it is not known which of them the model reads.
        if len(windows) != 1 or len(elements) != 1:
            continue
        (window,), (element,) = windows, elements
        behind = _difference(window.end, element.start)
        length = _difference(window.end, window.start)
        is_end = (
            behind is not None and 0 < behind <= _MOST_BEHIND and (length is None or length > _MOST_BEHIND * behind)
        )
        is_seen = window.columns in ("", element.columns)
        if behind and is_end and is_seen and _is_kept(tree, window.node) and _is_kept(tree, element.node):
            yield TargetInWindow(element.node.lineno, window.node.lineno, behind)


def _cuts_rows(node: ast.AST) -> bool:
    """Whether a part is taken of each row of something: ``windows[:, :-1]``, ``x[..., 1:]``."""
    index = node.slice if isinstance(node, ast.Subscript) else None
    parts = index.elts if isinstance(index, ast.Tuple) else []
    is_of_all = bool(parts) and (_is_all(parts[0]) or (isinstance(parts[0], ast.Constant) and parts[0].value is ...))
    return is_of_all and any(isinstance(part, ast.Slice) and not _is_all(part) for part in parts[1:])


def _is_all(part: ast.expr) -> bool:
    return isinstance(part, ast.Slice) and part.lower is part.upper is part.step is None


def _round(tree: SourceTree, node: ast.Subscript, cut: _Cut) -> object | None:
    """What tells the loop, the comprehension or the method around a cut, if that moves it: its own variable is in the
    bounds. Comprehensions over the same numbers count as one."""
    names = {name for name, _ in (*cut.start, *cut.end)}
    for each in tree.around(node):
        if isinstance(each, ast.For) and isinstance(each.target, ast.Name) and each.target.id in names:
            return id(each)
        for part in each.generators if isinstance(each, COMPREHENSIONS) else ():
            if isinstance(part.target, ast.Name) and part.target.id in names:
                return id(tree.scope(node)), part.target.id, ast.unparse(part.iter)
        if isinstance(each, ast.FunctionDef):
            arguments = {argument.arg for argument in each.args.args}
            return id(each) if each.name == "__getitem__" and names & arguments else None
    return None


def _is_kept(tree: SourceTree, node: ast.Subscript) -> bool:
    """Whether it is stored or returned as it is: not a part of a computation, nor of what is cut further."""
    for each in tree.around(node):
        if isinstance(each, ast.Call) and called_name(each) not in _KEEPING:
            return False
        if isinstance(each, ast.Assign):
            return not any(_is_cut_further(other, each.targets) for other in tree.nodes)
        if isinstance(each, (ast.Expr, ast.Return, *COMPREHENSIONS)):
            return True
        if not isinstance(each, (ast.Tuple, ast.List, ast.Attribute, ast.Call)):
            return False
    return False


def _is_cut_further(node: ast.AST, targets: list[ast.expr]) -> bool:
    names = {ast.unparse(name) for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return isinstance(node, ast.Subscript) and ast.unparse(node.value) in names


def _cut(node: ast.Subscript) -> _Cut | None:
    """``series[i : i + n]`` and ``series[i + n]``, perhaps with columns behind it."""
    index, columns = node.slice, ""
    if isinstance(index, ast.Tuple):
        if not index.elts:
            return None
        index, *others = index.elts
        columns = "" if all(map(_is_all, others)) else ", ".join(ast.unparse(each) for each in others)
    array = ast.unparse(node.value)
    if isinstance(index, ast.Slice):
        start, end = (None if each is None else _sum(each) for each in (index.lower, index.upper))
        if start is None or end is None or index.step is not None:
            return None
        return _Cut(node, array, columns, _sorted(start), _sorted(end), is_element=False)
    place = _sum(index)
    if place is None or not any(place):
        return None
    return _Cut(node, array, columns, _sorted(place), _sorted(place), is_element=True)


def _sorted(bound: _Bound) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(bound.items()))


def _difference(one: tuple[tuple[str, int], ...], other: tuple[tuple[str, int], ...]) -> int | None:
    """How much one bound is behind another; None if that depends on a name."""
    names = dict(one)
    for name, factor in other:
        names[name] = names.get(name, 0) - factor
    number = names.pop("", 0)
    return None if any(names.values()) else number


def _sum(node: ast.expr) -> _Bound | None:
    """Names and attributes that are added, with whole numbers; None for anything else."""
    if isinstance(node, ast.Constant):
        return {"": node.value} if type(node.value) is int else None
    if isinstance(node, (ast.Name, ast.Attribute)):
        return {ast.unparse(node): 1}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _added({}, _sum(node.operand), -1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        return _added(_sum(node.left), _sum(node.right), 1 if isinstance(node.op, ast.Add) else -1)
    return None


def _added(one: _Bound | None, other: _Bound | None, sign: int) -> _Bound | None:
    if one is None or other is None:
        return None
    return {name: one.get(name, 0) + sign * other.get(name, 0) for name in {*one, *other}}
