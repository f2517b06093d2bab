"""Permutations that a program makes lists of, and calls of ``random_split()``, with the part that it uses of each.

>>> tree = SourceTree(dict(enumerate('''train = torch.randperm(n).tolist()[:k]
... order = torch.randperm(n).tolist()
... held = order[k:]
... first, _ = random_split(data, [8, 2])
... _, second = random_split(data, [8, 2])
... train(first, second)
... '''.splitlines(), start=1)))
>>> [(each.line, each.key[1:], set(each.parts)) for each in drawn_parts(tree)]
[(1, ('n', 'k'), {'head'}), (2, ('n', 'k'), {'tail'}), (4, ('data, [8, 2]', ''), {0}), (5, ('data, [8, 2]', ''), {1})]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import combinations

from msgspec import Struct

from gradviz.analysis.sources.source_tree import SourceTree, called_name, is_read, last_name

_LISTS = frozenset({"tolist", "numpy", "list", "cpu"})


class DrawnParts(Struct, frozen=True):
    """What a program uses of one permutation, or of one random split."""

    line: int
    key: tuple[str, str, str]
    """What draws, of what, and where a permutation is cut, as source."""
    parts: frozenset[str | int]
    is_either: bool = False
    """Whether each run uses one of several parts, as a condition says."""


def split_by_two(tree: SourceTree) -> Iterator[tuple[DrawnParts, DrawnParts]]:
    """Two draws of which a program uses different parts; a draw with itself, if each run of it uses another part."""
    found = list(drawn_parts(tree))
    for one, other in combinations(found, 2):
        if one.key == other.key and one.parts.isdisjoint(other.parts):
            yield one, other
    yield from ((each, each) for each in found if each.is_either)


def drawn_parts(tree: SourceTree) -> Iterator[DrawnParts]:
    """Those of which only a part is used, in the order of their lines."""
    calls = [each for each in tree.nodes if isinstance(each, ast.Call)]
    for call in sorted(calls, key=lambda each: each.lineno):
        given = ", ".join(map(ast.unparse, call.args))
        if called_name(call) == "random_split" and not any(each.arg == "generator" for each in call.keywords):
            used, count = _used_results(tree, call)
            if used and len(used) < count:
                yield DrawnParts(call.lineno, ("random_split", given, ""), frozenset(used))
        elif called_name(call) == "randperm" and not any(each.arg == "generator" for each in call.keywords):
            made = _listed(tree, call)
            cuts = list(_cuts(tree, made)) if made is not call else []
            bounds = {bound for _, bound, _ in cuts}
            parts = frozenset(part for part, _, _ in cuts)
            is_either = len(parts) > 1 and all(is_optional for _, _, is_optional in cuts)
            if len(bounds) == 1 and "" not in bounds and (len(parts) == 1 or is_either):
                yield DrawnParts(call.lineno, (called_name(call), given, bounds.pop()), parts, is_either)


def _used_results(tree: SourceTree, call: ast.Call) -> tuple[set[int], int]:
    """The numbers of the parts of ``random_split()`` that are read, and how many parts there are."""
    around = tree.parent(call)
    sizes = call.args[1].elts if len(call.args) > 1 and isinstance(call.args[1], (ast.List, ast.Tuple)) else []
    if isinstance(around, ast.Subscript) and isinstance(around.slice, ast.Constant):
        number = around.slice.value
        return ({number} if type(number) is int and number >= 0 else set()), len(sizes)
    target = around.targets[0] if isinstance(around, ast.Assign) and around.value is call else None
    if not isinstance(target, ast.Tuple):
        return set(), 0
    used = {index for index, name in enumerate(target.elts) if not isinstance(name, ast.Name) or _reads(tree, name)}
    return used, len(target.elts)


def _reads(tree: SourceTree, name: ast.Name) -> list[ast.Name]:
    """Where a variable is read; nowhere, if its name says so."""
    key = tree.key_of(name)
    if key is None or name.id.startswith("_"):
        return []
    names = (each for each in tree.nodes if isinstance(each, ast.Name) and each.id == name.id)
    return [each for each in names if is_read(each) and tree.key_of(each) == key]


def _listed(tree: SourceTree, call: ast.Call) -> ast.expr:
    """A permutation as a list: ``list(torch.randperm(n))``, ``torch.randperm(n).tolist()``."""
    node: ast.expr = call
    around = tree.parent(node)
    while isinstance(around, (ast.Attribute, ast.Call)) and _LISTS & {last_name(around), called_name(around)}:
        node, around = around, tree.parent(around)
    return node


def _cuts(tree: SourceTree, node: ast.expr) -> Iterator[tuple[str, str, bool]]:
    """For each use of a list: ``head`` or ``tail``, the bound, and whether a condition chooses this use; an empty bound
    for any other use."""
    around = tree.parent(node)
    if isinstance(around, ast.Subscript) and isinstance(around.slice, ast.Slice) and around.value is node:
        lower, upper = around.slice.lower, around.slice.upper
        is_optional = isinstance(tree.parent(around), ast.IfExp) or _is_in_branch(tree, around)
        if (lower is None) is (upper is None) or around.slice.step is not None:
            yield "", "", False
        elif upper is not None:
            yield "head", ast.unparse(upper), is_optional
        elif lower is not None:
            yield "tail", ast.unparse(lower), is_optional
        return
    target = around.targets[0] if isinstance(around, ast.Assign) and around.value is node else None
    if not isinstance(target, ast.Name):
        yield "", "", False
        return
    for name in _reads(tree, target):
        if called_name(tree.parent(name) or name) != "len":
            yield from _cuts(tree, name)


def _is_in_branch(tree: SourceTree, node: ast.AST) -> bool:
    """Whether a condition of the same function decides on a return: the other branch returns something else."""
    around = list(tree.around(node))
    is_returned = any(isinstance(each, ast.Return) for each in around[:2])
    return is_returned and any(isinstance(each, ast.If) for each in around[:3])
