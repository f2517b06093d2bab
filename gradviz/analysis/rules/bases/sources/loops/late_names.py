"""Functions that a loop makes and keeps, as hooks do, and that read variables of the loop when they are called.

>>> tree = SourceTree(dict(enumerate('''for layer in layers:
...     mask = layer.weight.abs() > 0.1
...     layer.weight.register_hook(lambda grad: grad * mask)
...     layer.weight.register_hook(lambda grad, mask=mask: grad * mask)
... shifts = [lambda x: x + i for i in range(3)]'''.splitlines(), start=1)))
>>> [(each.line, each.names) for each in late_names(tree)]
[(3, ('mask',)), (5, ('i',))]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import Loop, SourceTree, all_parameters_of, called_name

Function = ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef
_KEEPS = frozenset({"append", "insert", "setdefault"})
_ENDS = (ast.Break, ast.Return)


class LateName(Struct, frozen=True):
    """One function that is kept beyond the turn of the loop that makes it."""

    line: int
    names: tuple[str, ...]
    """The variables of the loop that it reads."""


def late_names(tree: SourceTree) -> list[LateName]:
    """In the order of their lines; not in a loop that ends with its first turn, or removes its hooks."""
    found = list[LateName]()
    for node in tree.nodes:
        if isinstance(node, (ast.Lambda, *FUNCTIONS)):
            bound = _bound_by_comprehension(tree, node) or _bound_by_loop(tree, node)
            names = tuple(sorted(_read(node) & bound)) if bound else ()
            if names:
                found.append(LateName(node.lineno, names))
    return sorted(found, key=lambda each: each.line)


def _bound_by_comprehension(tree: SourceTree, node: Function) -> set[str]:
    parent = tree.parent(node)
    is_element = isinstance(parent, ast.ListComp) or (isinstance(parent, ast.DictComp) and parent.value is node)
    generators = parent.generators if is_element and isinstance(parent, (ast.ListComp, ast.DictComp)) else ()
    return {name for each in generators for name in _names(each.target)}


def _bound_by_loop(tree: SourceTree, node: Function) -> set[str]:
    """The variables that get other values at each turn of the loop around a function that is kept."""
    loop = next(tree.loops_around(node), None)
    if loop is None or not any(_is_kept(node, each) for each in _in_turn(loop)):
        return set()
    if any(isinstance(each, _ENDS) or called_name(each) == "remove" for each in _in_turn(loop)):
        return set()
    found = _names(loop.target) if isinstance(loop, (ast.For, ast.AsyncFor)) else set[str]()
    for each in _in_turn(loop):
        if isinstance(each, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            found |= _names(each)
    return found


def _in_turn(loop: Loop) -> Iterator[ast.AST]:
    """All that one turn of a loop runs itself: not what the functions do that it makes."""
    waiting: list[ast.AST] = list(loop.body)
    while waiting:
        node = waiting.pop()
        yield node
        waiting += () if isinstance(node, (ast.Lambda, *FUNCTIONS)) else ast.iter_child_nodes(node)


def _is_kept(function: Function, node: ast.AST) -> bool:
    """Whether a node registers a function as a hook, or puts it into a list or dict."""
    name = None if isinstance(function, ast.Lambda) else function.name
    if isinstance(node, ast.Call):
        called = called_name(node)
        is_keeping = (called.startswith("register_") and "hook" in called) or called in _KEEPS
        return is_keeping and any(_is(each, function, name) for each in node.args)
    return (
        isinstance(node, ast.Assign)
        and _is(node.value, function, name)
        and any(isinstance(target, ast.Subscript) for target in node.targets)
    )


def _is(node: ast.AST, function: Function, name: str | None) -> bool:
    return node is function or (name is not None and isinstance(node, ast.Name) and node.id == name)


def _names(target: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(target) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def _read(function: Function) -> set[str]:
    """The names that a function reads from around it: no arguments, no variables of its own."""
    body = [function.body] if isinstance(function, ast.Lambda) else function.body
    names = [each for part in body for each in ast.walk(part) if isinstance(each, ast.Name)]
    own = {each.id for each in names if isinstance(each.ctx, ast.Store)}
    return {each.id for each in names if isinstance(each.ctx, ast.Load)} - own - all_parameters_of(function)
