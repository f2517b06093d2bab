"""Functions that a loop makes and keeps, as hooks do, and that read variables of the loop when they are called.

>>> tree = SourceTree(dict(enumerate('''for layer in layers:
...     mask = layer.weight.abs() > 0.1
...     layer.weight.register_hook(lambda grad: grad * mask)
...     layer.weight.register_hook(lambda grad, mask=mask: grad * mask)
... shifts = [lambda x: x + i for i in range(3)]'''.splitlines(), start=1)))
>>> [(each.line, each.names, each.turn) for each in late_names(tree)]
[(3, ('mask',), range(1, 5)), (5, ('i',), range(0, 0))]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import Loop, SourceTree, all_parameters_of, called_name, last_line

Function = ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef
_KEEPS = frozenset({"append", "insert", "setdefault"})
_ENDS = (ast.Break, ast.Return)


class LateName(Struct, frozen=True):
    """One function that is kept beyond the turn of the loop that makes it."""

    line: int
    names: tuple[str, ...]
    """The variables of the loop that it reads."""
    turn: range
    """The lines of the loop; empty for a comprehension."""


def late_names(tree: SourceTree) -> list[LateName]:
    """In the order of their lines; not in a loop that ends with its first turn, or removes its hooks."""
    found = list[LateName]()
    for node in tree.nodes:
        if not isinstance(node, (ast.Lambda, *FUNCTIONS)):
            continue
        for names, turn in _bound_around(tree, node):
            late = tuple(sorted(_read(node) & names))
            if late:
                found.append(LateName(node.lineno, late, turn))
                break
    return sorted(found, key=lambda each: each.line)


def _bound_around(tree: SourceTree, node: Function) -> Iterator[tuple[set[str], range]]:
    """The variables that get other values at each turn of a comprehension, or of one of the loops around a function
    that is kept, innermost first."""
    parent = tree.parent(node)
    is_element = isinstance(parent, ast.ListComp) or (isinstance(parent, ast.DictComp) and parent.value is node)
    if is_element and isinstance(parent, (ast.ListComp, ast.DictComp)):
        yield {name for each in parent.generators for name in _names(each.target)}, range(0)
    for loop in tree.loops_around(node):
        turn = list(_in_turn(loop))
        if not any(_is_kept(node, each) for each in turn):
            return
        if any(isinstance(each, _ENDS) or called_name(each) == "remove" for each in turn):
            return
        names = _names(loop.target) if isinstance(loop, (ast.For, ast.AsyncFor)) else set[str]()
        for each in turn:
            if isinstance(each, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
                names |= _names(each)
        yield names, range(loop.lineno, last_line(loop) + 1)


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
