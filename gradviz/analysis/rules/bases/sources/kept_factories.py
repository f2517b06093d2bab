"""Functions that keep what they made, and return it again where they are asked for the same: by a decorator such as
``@lru_cache``, by one of the program's own, or in a dict that lives on.

>>> tree = SourceTree(dict(enumerate('''TOWERS = {}
... @lru_cache(maxsize=None)
... def build(size):
...     return Linear(size, size)
... def tower(size):
...     if size not in TOWERS:
...         TOWERS[size] = Linear(size, size)
...     return TOWERS[size]
... make = cache(other)
... def other(size):
...     return Linear(size, size)
... def collect(size):
...     found = {}
...     found[size] = Linear(size, size)
...     return found[size]
... '''.splitlines(), start=1)))
>>> [(each.name, each.line, each.keeper) for each in kept_factories([("towers.py", tree)])]
[('build', 2, '@lru_cache(maxsize=None)'), ('tower', 7, 'TOWERS'), ('make', 9, 'cache')]
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from msgspec import Struct

from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import (
    SourceTree,
    all_parameters_of,
    called_name,
    decorator_that_keeps_results,
    defaults_of,
    last_line,
    last_name,
)

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_DECORATORS = frozenset({"lru_cache", "cache"})


class KeptFactory(Struct, frozen=True, eq=False):
    """A function, or a class, whose results are kept for the next call with equal arguments."""

    file: str
    tree: SourceTree
    made_in: _Function | ast.ClassDef
    """What runs where nothing is kept yet."""
    name: str
    """What a program calls."""
    line: int
    """That which keeps the results."""
    keeper: str
    """The decorator, or what holds the results."""
    is_decorated: bool

    @property
    def takes_nothing(self) -> bool:
        """Whether there is nothing by which its results could differ."""
        return isinstance(self.made_in, FUNCTIONS) and not all_parameters_of(self.made_in) - {"self", "cls"}


def kept_factories(files: Iterable[tuple[str, SourceTree]]) -> Iterator[KeptFactory]:
    """Those of some files."""
    files = [*files]
    for file, tree in files:
        for node in tree.nodes:
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                keeps = decorator_that_keeps_results(node)
                if keeps is not None and (called_name(keeps) or last_name(keeps)) in _DECORATORS:
                    yield KeptFactory(file, tree, node, node.name, keeps.lineno, f"@{ast.unparse(keeps)}", True)
            if isinstance(node, FUNCTIONS):
                yield from _that_store(files, file, tree, node)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                yield from _wrapped(file, tree, node.targets[0], node.value)


def _wrapped(file: str, tree: SourceTree, target: ast.expr, value: ast.Call) -> Iterator[KeptFactory]:
    """``make = lru_cache(None)(build)``."""
    name = called_name(value) or called_name(value.func)
    given = last_name(value.args[0]) if name in _DECORATORS and value.args else ""
    for node in tree.nodes if given else ():
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and node.name == given:
            yield KeptFactory(file, tree, node, last_name(target), value.lineno, ast.unparse(value.func), False)


def _that_store(
    files: list[tuple[str, SourceTree]], file: str, tree: SourceTree, function: _Function
) -> Iterator[KeptFactory]:
    """A function that puts what it returns in a dict, and takes it from there; of one that a decorator returns, the
    functions that are decorated with it."""
    stored = next(_stores(tree, function), None)
    if stored is None:
        return
    statement, container = stored
    around = [each for each in tree.around(function) if isinstance(each, FUNCTIONS)]
    calls = [last_name(each.func) for each in ast.walk(function) if isinstance(each, ast.Call)]
    is_wrapper = any(not all_parameters_of(each).isdisjoint(calls) for each in around)
    outer = {each.name for each in around} if is_wrapper else set[str]()
    decorated = [
        KeptFactory(other_file, other, node, node.name, each.lineno, f"@{ast.unparse(each)}", True)
        for other_file, other in (files if outer else ())
        for node in other.nodes
        if isinstance(node, (*FUNCTIONS, ast.ClassDef))
        for each in node.decorator_list
        if (called_name(each) or last_name(each)) in outer
    ]
    own = KeptFactory(file, tree, function, function.name, statement.lineno, ast.unparse(container), False)
    yield from decorated or [own]


def _stores(tree: SourceTree, function: _Function) -> Iterator[tuple[ast.Assign, ast.expr]]:
    """Statements that put in a container what the function returns, where it may also return what is there already."""
    own = [node for node in ast.walk(function) if tree.scope(node) is function]
    returned = [node.value for node in own if isinstance(node, ast.Return) and node.value is not None]
    for statement in own:
        # What a function is given is put there by its caller, as by a decorator that registers functions.
        if not isinstance(statement, ast.Assign) or last_name(statement.value) in all_parameters_of(function):
            continue
        places = [each for each in statement.targets if isinstance(each, ast.Subscript)]
        names = {last_name(each) for each in (*statement.targets, statement.value) if isinstance(each, ast.Name)}
        for place in places:
            container, element = ast.unparse(place.value), ast.unparse(place)
            is_returned = any(last_name(each) in names or ast.unparse(each) == element for each in returned)
            is_asked = any(_asks(node, container) for node in own)
            if is_returned and is_asked and _lives_on(tree, function, place.value):
                yield statement, place.value


def _asks(node: ast.AST, container: str) -> bool:
    """Whether a node takes something from a container, or asks whether it is there."""
    match node:
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[held]):
            return ast.unparse(held) == container
        case ast.Call(func=ast.Attribute(attr="get", value=held)):
            return ast.unparse(held) == container
        case ast.Try(body=[*_, ast.Return(value=ast.Subscript(value=held))]):
            return ast.unparse(held) == container
        case ast.Try(body=[*_, ast.Assign(value=ast.Subscript(value=held))]):
            return ast.unparse(held) == container
    return False


def _lives_on(tree: SourceTree, function: _Function, container: ast.expr) -> bool:
    """Whether a container is there before a function is called, and after it: no variable of its own."""
    root = container
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        root = root.value
    if not isinstance(root, ast.Name):
        return False
    if isinstance(container, ast.Attribute) and root.id in ("self", "cls"):
        return True
    if any(name == root.id and isinstance(value, ast.Dict) for name, value in defaults_of(function)):
        return True
    key = tree.key_of(root)
    return key is None or key.owner != function.lineno  # None, of what another file has


def is_inside(factory: KeptFactory, file: str, line: int) -> bool:
    """Whether a line is one of those that run where nothing is kept yet."""
    return file == factory.file and factory.made_in.lineno <= line <= (factory.made_in.end_lineno or 0)


def asks_of(
    factory: KeptFactory, files: Iterable[tuple[str, SourceTree]]
) -> Iterator[tuple[str, SourceTree, ast.Call]]:
    """The expressions that call a factory, with their files."""
    for file, tree in files:
        calls = (each for each in tree.nodes if isinstance(each, ast.Call) and called_name(each) == factory.name)
        yield from ((file, tree, each) for each in calls if not is_inside(factory, file, each.lineno))


def is_on(node: ast.expr | ast.stmt, line: int) -> bool:
    return node.lineno <= line <= last_line(node)
