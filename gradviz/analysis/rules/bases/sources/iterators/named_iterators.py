"""Variables that hold an iterator, which gives its elements once: ``params = model.parameters()``.

>>> tree = SourceTree(dict(enumerate('''params = model.parameters()
... every = list(model.parameters())
... class Ema:
...     def __init__(self, params):
...         self.params = params
... ema = Ema(model.buffers())
... '''.splitlines(), start=1)))
>>> [(each.line, [key.name for key in each.keys]) for each in named_iterators(tree)]
[(1, ['params']), (5, ['params', 'self.params'])]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.rules.bases.sources.arguments import arguments
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import Key, SourceTree, called_name


class NamedIterator(Struct):
    """One iterator and the variables that hold it."""

    keys: list[Key]
    line: int
    """The line that one would edit to keep its elements."""
    made: ast.AST
    """The expression that makes it, where the program makes it once."""
    places: dict[Key, ast.AST]
    """For a variable that gets it from a call: that call, in which the function with this variable runs."""


_METHODS = frozenset({
    "parameters", "named_parameters", "buffers", "named_buffers", "modules", "named_modules", "children",
    "named_children",
})  # fmt: skip
_LAZY = frozenset({"filter", "map", "zip", "iter", "enumerate", "reversed"})
_CHAINS = frozenset({"chain", "from_iterable", "islice"})
_ENDLESS = frozenset({"cycle", "count", "repeat"})


def named_iterators(tree: SourceTree) -> Iterator[NamedIterator]:
    """Those that are in variables which nothing else ever changes."""
    makers = _Makers(tree)
    found: dict[Key, NamedIterator] = {}
    for target, value in tree.assignments:
        key = tree.key_of(target)
        if key is not None and makers.makes(value):
            found[key] = NamedIterator([key], value.lineno, value, {})
    for key, argument, call in arguments(tree):
        held = found.get(tree.key_of(argument) or key)
        if held is not None and key not in found:
            held.keys.append(key)
            held.places[key] = call
            found[key] = held
        elif makers.makes(argument):
            found[key] = NamedIterator([key], argument.lineno, argument, {key: call})
    for target, value in tree.assignments:
        source, key = tree.key_of(value), tree.key_of(target)
        held = None if source is None else found.get(source)
        if held is not None and source is not None and key is not None and key not in found:
            found[key] = held
            held.keys.append(key)
            if source in held.places:
                held.places[key] = held.places[source]
                held.line = value.lineno
    for each in {id(held): held for held in found.values()}.values():
        if all(tree.times_bound(key) == 1 and _own_name(key) not in tree.foreign for key in each.keys):
            yield each


def _own_name(key: Key) -> str:
    return key.name.partition("self.")[2]


class _Makers:
    """Tells which expressions make an iterator."""

    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree
        self._functions: dict[str, list[ast.AST]] = {}
        for node in tree.nodes:
            if isinstance(node, FUNCTIONS):
                self._functions.setdefault(node.name, []).append(node)

    def makes(self, value: ast.expr, *, inside: bool = False) -> bool:
        """Whether the value of an expression is an iterator, which ends.

        Args:
            inside: whether it is returned by a function of the program that is looked into.
        """
        own = self._functions.get(called_name(value), [])
        if own and not _is_endless(value):
            return not inside and len(own) == 1 and self._is_generator(own[0])
        return makes_iterator(value)

    def _is_generator(self, function: ast.AST) -> bool:
        own = [node for node in ast.walk(function) if self._tree.scope(node) is function]
        if any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in own):
            return not any(isinstance(node, ast.While) for node in own)
        returned = [node.value for node in own if isinstance(node, ast.Return) and node.value is not None]
        return bool(returned) and all(self.makes(each, inside=True) for each in returned)


def makes_iterator(value: ast.expr) -> bool:
    """Whether an expression makes an iterator, which ends, with functions of Python or methods of modules."""
    if _is_endless(value):
        return False
    if not isinstance(value, ast.Call):
        return isinstance(value, ast.GeneratorExp)
    name = called_name(value)
    if name in _METHODS:
        return isinstance(value.func, ast.Attribute)
    is_iter = name != "iter" or len(value.args) == 1
    return (name in _LAZY and isinstance(value.func, ast.Name) and is_iter) or name in _CHAINS


def _is_endless(value: ast.AST) -> bool:
    return any(called_name(node) in _ENDLESS for node in ast.walk(value))
