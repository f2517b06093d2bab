"""Statements that keep ``p.grad`` itself under another name, and not a copy.

>>> tree = SourceTree(dict(enumerate('''first = [p.grad for p in params]
... second = [p.grad.clone() for p in params]
... norms = [p.grad.norm() for p in params]
... for loss in losses:
...     loss.backward()
...     found.append([p.grad.flatten() for p in params])
... '''.splitlines(), start=1)))
>>> [(each.line, each.name, each.adds) for each in kept_gradients(tree)]
[(1, 'first', False), (6, 'found', True)]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, called_name, is_read


class KeptGradients(Struct, frozen=True):
    """One statement."""

    line: int
    name: str
    """The variable that has them, as source."""
    adds: bool
    """Whether it adds to what the variable holds, so that the loop around it keeps several."""
    is_of_many: bool
    """Whether the variable holds several gradients."""
    is_list: bool
    """Whether the statement makes a list or dict of all of them."""
    scope: tuple[int, int]
    """The lines of the function around it."""
    is_given_on: bool = False
    """Whether the function returns the variable, or it is an attribute: other functions may read it."""


_SAME_MEMORY = frozenset({"detach", "view", "flatten", "reshape", "ravel", "view_as"})
_KEEP_ALL = frozenset({"list", "tuple", "dict"})
_ADD = frozenset({"append", "extend"})
_LISTS = (ast.ListComp, ast.GeneratorExp, ast.DictComp)


def kept_gradients(tree: SourceTree) -> Iterator[KeptGradients]:
    """In the order of the lines."""
    found = [each for node in tree.nodes for each in _kept_at(tree, node)]
    returned = {
        getattr(tree.scope(node), "name", "")
        for node in tree.nodes
        if isinstance(node, ast.Return) and node.value is not None and _is_list_of_gradients(tree, node.value)
    }
    calls = (node for node in tree.nodes if isinstance(node, ast.Call) and called_name(node) in returned - {""})
    found += [each for node in calls for each in _stored(tree, node, is_of_many=True)]
    yield from sorted(found, key=lambda each: each.line)


def _kept_at(tree: SourceTree, node: ast.AST) -> Iterator[KeptGradients]:
    if not isinstance(node, ast.Attribute) or node.attr != "grad" or not is_read(node):
        return
    value = _same_memory(tree, node)
    around = tree.parent(value)
    if isinstance(around, _LISTS) and (
        value is getattr(around, "elt", None) or value is getattr(around, "value", None)
    ):
        yield from _stored(tree, around, is_of_many=True)
    else:
        yield from _stored(tree, value, is_of_many=False)


def _same_memory(tree: SourceTree, value: ast.expr) -> ast.expr:
    """The whole expression whose result has the memory of a value."""
    while True:
        around = tree.parent(value)
        call = None if around is None else tree.parent(around)
        if isinstance(around, ast.Attribute) and around.attr == "data":
            value = around
        elif isinstance(around, ast.Attribute) and around.attr in _SAME_MEMORY and isinstance(call, ast.Call):
            value = call
        else:
            return value


def _is_list_of_gradients(tree: SourceTree, value: ast.expr) -> bool:
    element = value.elt if isinstance(value, ast.ListComp) else value.value if isinstance(value, ast.DictComp) else None
    grads = (node for node in ast.walk(element or value) if isinstance(node, ast.Attribute) and node.attr == "grad")
    return element is not None and any(_same_memory(tree, node) is element for node in grads)


def _stored(tree: SourceTree, value: ast.AST, *, is_of_many: bool) -> Iterator[KeptGradients]:
    """The statement that stores a value, if it is one that a name, a list or a dict keeps."""
    around = tree.parent(value)
    while isinstance(around, ast.Call) and called_name(around) in _KEEP_ALL:
        value, around = around, tree.parent(around)
    name, adds, is_list = "", False, is_of_many
    if isinstance(around, ast.Assign) and around.value is value and len(around.targets) == 1:
        target = around.targets[0]
        adds = isinstance(target, ast.Subscript) and _is_of_loop(tree, around, target.slice)
        name = ast.unparse(target.value if isinstance(target, ast.Subscript) else target)
        is_of_many = is_of_many or isinstance(target, ast.Subscript)
    elif isinstance(around, ast.Call) and called_name(around) in _ADD and isinstance(around.func, ast.Attribute):
        name, adds = ast.unparse(around.func.value), not _is_filled_here(tree, around)
        is_of_many = True
    if name and (is_of_many or adds):
        scope = tree.scope(value)
        lines = (scope.lineno, scope.end_lineno or 0) if isinstance(scope, FUNCTIONS) else (0, 2**31)
        is_given_on = name.startswith("self.") or _is_returned(scope, name)
        yield KeptGradients(getattr(around, "lineno", 0), name, adds, is_of_many, is_list, lines, is_given_on)


def _is_returned(scope: ast.AST, name: str) -> bool:
    values = (node.value for node in ast.walk(scope) if isinstance(node, (ast.Return, ast.Yield)) and node.value)
    return any(
        any(getattr(each, "id", "") == name for each in [value, *getattr(value, "elts", [])]) for value in values
    )


def _is_of_loop(tree: SourceTree, statement: ast.AST, index: ast.expr) -> bool:
    """Whether the index is the variable of a loop over losses: the loop also calls backward()."""
    names = {node.id for node in ast.walk(index) if isinstance(node, ast.Name)}
    for loop in tree.loops_around(statement):
        targets = ast.walk(loop.target) if isinstance(loop, (ast.For, ast.AsyncFor)) else ()
        if not names.isdisjoint(node.id for node in targets if isinstance(node, ast.Name)):
            return _calls_backward(loop)
    return False


def _is_filled_here(tree: SourceTree, call: ast.AST) -> bool:
    """Whether a list is filled by a loop over parameters alone."""
    loop = next(tree.loops_around(call), None)
    return loop is None or not _calls_backward(loop)


def _calls_backward(loop: ast.AST) -> bool:
    return any(called_name(node) == "backward" for node in ast.walk(loop))
