"""Texts that a program looks for in the names of parameters: ``"bias" in name`` in a loop over ``named_parameters()``.

>>> lines = '''skip = ["bias", "LayerNorm.weight"]
... for name, p in model.named_parameters():
...     if any(each in name for each in skip) or name.endswith(".scale"):
...         plain.append(p)
... '''.splitlines()
>>> (found,) = conditions_on_names(SourceTree(dict(enumerate(lines, start=1))))
>>> [(each.text, each.line, each.is_in(["block.norm.scale"])) for each in found.texts]
[('bias', 1, False), ('LayerNorm.weight', 1, False), ('.scale', 3, True)]
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from gradviz.analysis.rules.bases.sources.names.values_in_source import values_in_source
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import COMPREHENSIONS, SourceTree, called_name, given_to

_ENDS = ("startswith", "endswith")
_Way = Literal["in", "startswith", "endswith"]


class Text(Struct, frozen=True):
    """A text that a condition looks for."""

    text: str
    line: int
    way: _Way

    def is_in(self, names: Iterable[str]) -> bool:
        """Whether the condition finds it in one of these names, which may begin with the variable of a module."""
        if self.way == "startswith":
            return any(name.startswith(self.text) or f".{self.text}" in name for name in names)
        return any(name.endswith(self.text) if self.way == "endswith" else self.text in name for name in names)


class ConditionOnNames(Struct, frozen=True):
    """A condition on the name of each parameter."""

    texts: tuple[Text, ...]
    freezes: bool
    """Whether it alone decides which parameters get ``requires_grad = False``, each time that its function runs."""


def conditions_on_names(tree: SourceTree) -> Iterator[ConditionOnNames]:
    """The conditions in loops and comprehensions over ``named_parameters()``."""
    for node in tree.nodes:
        if isinstance(node, COMPREHENSIONS):
            for loop in node.generators:
                name = _name_in(loop.target) if _is_over_names(loop.iter) else ""
                texts = [text for test in loop.ifs for text in _texts(tree, test, name)] if name else []
                if texts:
                    yield ConditionOnNames(_in_order(texts), freezes=False)
        elif isinstance(node, ast.For) and _is_over_names(node.iter):
            name = _name_in(node.target)
            for inner in ast.walk(node) if name else ():
                texts = list(_texts(tree, inner.test, name)) if isinstance(inner, (ast.If, ast.IfExp)) else []
                if texts:
                    freezes = isinstance(inner, ast.If) and inner in node.body and _freezes(inner)
                    yield ConditionOnNames(_in_order(texts), freezes and _always_runs(tree, node))


def loops_over_names(tree: SourceTree) -> Iterator[tuple[str, ast.AST]]:
    """The loops and comprehensions over the names of parameters or modules, each with the variable for the name; and
    the functions of the program that they give a name to, each with the parameter for it."""
    for node in tree.nodes:
        loops = [node] if isinstance(node, ast.For) else getattr(node, "generators", [])
        for loop in loops:
            if _is_over_names(loop.iter, _NAMED) and _name_in(loop.target):
                yield _name_in(loop.target), node
                yield from _given_on(tree, node, _name_in(loop.target))


def _given_on(tree: SourceTree, loop: ast.AST, name: str) -> Iterator[tuple[str, ast.AST]]:
    """The functions that a loop calls with the name, where only one has their own name."""
    for call in ast.walk(loop):
        if isinstance(call, ast.Call) and any(_is_name(each, name) for each in call.args):
            called = [each for each in tree.nodes if isinstance(each, FUNCTIONS) and each.name == called_name(call)]
            for function in called if len(called) == 1 else ():
                yield from ((each, function) for each, value in given_to(function, call) if _is_name(value, name))


def texts_in_loops(tree: SourceTree) -> Iterator[Text]:
    """The texts that loops and comprehensions over the names of parameters or modules look for."""
    for name, loop in loops_over_names(tree):
        yield from _texts(tree, loop, name)


_NAMED = ("named_parameters", "named_modules", "named_children")


def _in_order(texts: list[Text]) -> tuple[Text, ...]:
    return tuple(sorted(texts, key=lambda each: each.line))


def _is_over_names(iterated: ast.expr, methods: tuple[str, ...] = ("named_parameters",)) -> bool:
    return any(called_name(each) in methods for each in ast.walk(iterated))


def _name_in(target: ast.expr) -> str:
    """The variable for the name: the first of two."""
    first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else None
    return first.id if isinstance(first, ast.Name) else ""


def _texts(tree: SourceTree, within: ast.AST, name: str) -> Iterator[Text]:
    for looked_for, way in compared_with(within, name):
        for part in parts_of(tree, within, looked_for):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield Text(part.value, part.lineno, way)


def compared_with(within: ast.AST, name: str) -> Iterator[tuple[ast.expr, _Way]]:
    """What a name is compared with, by ``in``, ``startswith()`` or ``endswith()``."""
    for node in ast.walk(within):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            if _is_name(node.comparators[0], name):
                yield node.left, "in"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            way: _Way = "startswith" if node.func.attr == "startswith" else "endswith"
            if node.func.attr in _ENDS and _is_name(node.func.value, name):
                yield node.args[0], way


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def parts_of(tree: SourceTree, within: ast.AST, looked_for: ast.expr) -> Iterator[ast.expr]:
    """The expressions that one stands for: itself, the elements of a list, what a variable holds, what the calls of its
    function give to it, or the elements that a loop or comprehension within another node goes over."""
    waiting, seen = [looked_for], 0
    while waiting and seen < _MOST:
        node, seen = waiting.pop(0), seen + 1
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            waiting += node.elts
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            inner = [each for each in ast.walk(within) if isinstance(each, (ast.For, *COMPREHENSIONS))]
            loops = [loop for each in inner for loop in ([each] if isinstance(each, ast.For) else each.generators)]
            over = [loop.iter for loop in loops if isinstance(node, ast.Name) and _is_name(loop.target, node.id)]
            waiting += over or values_in_source(tree, node)
        elif isinstance(node, ast.Call) and called_name(node) in ("tuple", "list", "set", "sorted"):
            waiting += node.args
        else:
            yield node


_MOST = 60


def _freezes(condition: ast.If) -> bool:
    """Whether all that it does is to freeze."""
    return bool(condition.body) and not condition.orelse and all(_is_freezing(each) for each in condition.body)


def _is_freezing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        target, value = statement.targets[0], statement.value
        is_off = isinstance(value, ast.Constant) and value.value is False
        return is_off and isinstance(target, ast.Attribute) and target.attr == "requires_grad"
    call = statement.value if isinstance(statement, ast.Expr) else None
    is_call = isinstance(call, ast.Call) and called_name(call) == "requires_grad_" and len(call.args) == 1
    return is_call and isinstance(call, ast.Call) and getattr(call.args[0], "value", None) is False


def _always_runs(tree: SourceTree, loop: ast.For) -> bool:
    """Whether no condition is around a loop in its function, which the file calls, perhaps as a method."""
    for each in tree.around(loop):
        if isinstance(each, (ast.If, ast.IfExp, ast.Try, ast.While, ast.Lambda)):
            return False
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return each.name == "__init__" or any(called_name(node) == each.name for node in tree.nodes)
    return True
