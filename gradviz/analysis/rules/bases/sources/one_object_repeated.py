"""Expressions that put one object at several places: ``[block] * 6``, ``dict.fromkeys(names, block)``, loops.

>>> tree = SourceTree({1: "layers = [block for _ in range(3)]", 2: "heads = [make(i) for i in range(3)]"})
>>> [repeated.line for repeated in repeated_objects(tree)]
[1]
>>> tree = SourceTree({1: "layers = [block for _ in range(3)]", 2: "towers = ModuleDict({'a': block, 'b': block})"})
>>> line_that_repeats(tree, 1).line, line_that_repeats(tree, 2)
(1, None)
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from msgspec import Struct

from gradviz.analysis.sources.source_tree import COMPREHENSIONS, SourceTree, called_name

_LINES_ABOVE = 8
_LINES_BELOW = 6
_ROUNDS = 3
_STORE = frozenset({"append", "add_module", "register_module", "setattr", "insert"})
_CONTAINERS = frozenset({"Sequential", "ModuleList", "ModuleDict"})
_TO_THE_END = frozenset({"append", "insert"})
_MEANT = ("shar", "tied", "siam", "singleton", "recur", "same layer", "same block", "same module", "albert")


class RepeatedObject(Struct, frozen=True):
    """One place of the source that uses an object several times."""

    line: int
    last_line: int
    is_meant: bool
    """Whether its name says that it is shared, or the docstring or name of the class or function, or a comment; also
    where the program decides between it and separate objects."""
    is_by_name: bool
    """Whether a loop stores it under names of a module, one after the other."""


def repeated_objects(tree: SourceTree) -> Iterator[RepeatedObject]:
    """Every expression or loop of a file that has one object at several places."""
    for node in tree.nodes:
        is_by_name, element = False, _element(node)
        if element is None:
            element = _stored_by_loop(tree, node)
            is_by_name = element is not None and called_name(node) not in _TO_THE_END
        if element is not None and isinstance(node, (ast.expr, ast.stmt)):
            words = {each.id for each in ast.walk(element) if isinstance(each, ast.Name)}
            words |= {each.attr for each in ast.walk(element) if isinstance(each, ast.Attribute)}
            is_meant = _is_alternative(tree, node) or is_said_to_be_shared(tree, node, words)
            yield RepeatedObject(node.lineno, node.end_lineno or node.lineno, is_meant, is_by_name)


def is_said_to_be_shared(tree: SourceTree, node: ast.expr | ast.stmt, names: Iterable[str]) -> bool:
    """Whether the program says of a node that what it makes is shared: one of the names, or what is written around."""
    return any(_says_so(each) for each in (*names, *_texts(tree, node)))


def _says_so(text: str) -> bool:
    return any(part in text.lower() for part in _MEANT)


def _texts(tree: SourceTree, node: ast.expr | ast.stmt) -> Iterator[str]:
    """What the program says around a node: names and docstrings of its class and function, comments beside it."""
    for each in tree.around(node):
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield each.name
            yield ast.get_docstring(each) or ""
    for line in range(node.lineno - 1, (node.end_lineno or node.lineno) + 1):
        text = tree.lines.get(line, "")
        if line >= node.lineno or text.lstrip().startswith("#"):
            yield text.partition("#")[2]


def _is_alternative(tree: SourceTree, node: ast.AST) -> bool:
    """Whether a condition decides between a node and code that makes several objects."""
    below = node
    for each in tree.around(node):
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return False
        if isinstance(each, (ast.IfExp, ast.If)):
            branches = [[each.body], [each.orelse]] if isinstance(each, ast.IfExp) else [each.body, each.orelse]
            others = [
                part for branch in branches if below not in branch for other in branch for part in ast.walk(other)
            ]
            if below is not each.test and any(isinstance(part, (*COMPREHENSIONS, ast.For)) for part in others):
                return True
        below = each
    return False


def line_that_repeats(tree: SourceTree, made: int, *, by_name: bool = False) -> RepeatedObject | None:
    """The place nearest to the line that makes a container, first below and then above; else one that made what this
    line uses.

    Args:
        by_name: take only places that give an object several names of a module.

    Returns:
        None also where that line has one variable at several places: then it is written there more than once.
    """
    if not by_name and _is_written_out(tree, made):
        return None
    found = sorted((each for each in repeated_objects(tree) if each.is_by_name or not by_name), key=_line)
    near = [each for each in found if made <= each.last_line and each.line < made + _LINES_BELOW]
    above = [each for each in reversed(found) if made - _LINES_ABOVE < each.line < made]
    return next(iter(near + above), None) or _behind(tree, found, made)


def _is_written_out(tree: SourceTree, line: int) -> bool:
    """Whether what makes a container on a line is given one variable more than once."""
    for node in tree.nodes:
        if isinstance(node, ast.Call) and called_name(node) in _CONTAINERS and _is_on(node, line):
            given = [part for each in node.args for part in _parts(each)]
            names = [ast.dump(each) for each in given if isinstance(each, (ast.Name, ast.Attribute))]
            if len(names) > len(set(names)):
                return True
    return False


def _is_on(node: ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _parts(given: ast.expr) -> list[ast.expr]:
    if isinstance(given, ast.Dict):
        return given.values
    return given.elts if isinstance(given, (ast.List, ast.Tuple)) else [given]


def _line(repeated: RepeatedObject) -> int:
    return repeated.line


def _element(node: ast.AST) -> ast.expr | None:
    """The one object that an expression has several times."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for side in (node.left, node.right):
            if isinstance(side, (ast.List, ast.Tuple)) and any(map(_may_be_module, side.elts)):
                return side
    elif isinstance(node, COMPREHENSIONS):
        element = node.value if isinstance(node, ast.DictComp) else node.elt
        element = element.elts[-1] if isinstance(element, ast.Tuple) and element.elts else element
        bound = {each.id for part in node.generators for each in ast.walk(part.target) if isinstance(each, ast.Name)}
        return element if _is_fixed(element, bound) else None
    elif called_name(node) == "repeat" and isinstance(node, ast.Call) and _is_of_itertools(node):
        return node.args[0] if node.args and _may_be_module(node.args[0]) else None
    elif called_name(node) == "fromkeys" and isinstance(node, ast.Call) and len(node.args) > 1:
        return node.args[1] if _may_be_module(node.args[1]) else None
    return None


def _is_of_itertools(call: ast.Call) -> bool:
    function = call.func
    return isinstance(function, ast.Name) or (isinstance(function, ast.Attribute) and _is_named(function, "itertools"))


def _is_named(function: ast.Attribute, name: str) -> bool:
    return isinstance(function.value, ast.Name) and function.value.id == name


def _may_be_module(element: ast.expr) -> bool:
    return isinstance(element, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))


def _is_fixed(element: ast.expr, bound: set[str]) -> bool:
    """Whether an element is a variable, and the same one for each value of the loop's own variables."""
    names = {each.id for each in ast.walk(element) if isinstance(each, ast.Name)}
    return isinstance(element, (ast.Name, ast.Attribute)) and bool(names) and names.isdisjoint(bound)


def _stored_by_loop(tree: SourceTree, node: ast.AST) -> ast.expr | None:
    """A variable that a loop stores at each round, and that it neither makes nor gets."""
    value: ast.expr | None = None
    if isinstance(node, ast.Call) and called_name(node) in _STORE and node.args:
        value = node.args[-1]
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        value = node.value
    loop = next(tree.loops_around(node), None) if isinstance(value, (ast.Name, ast.Attribute)) else None
    if value is None or not isinstance(loop, (ast.For, ast.AsyncFor)):
        return None
    bound = {each.id for each in ast.walk(loop) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return value if _is_fixed(value, bound) else None


def _behind(tree: SourceTree, found: list[RepeatedObject], made: int) -> RepeatedObject | None:
    """A place that made what the statement of this line uses: by its variables, and by the functions that it calls."""
    statements = [each for each in tree.nodes if isinstance(each, ast.stmt) and not hasattr(each, "body")]
    here = [each for each in statements if each.lineno <= made <= (each.end_lineno or each.lineno)]
    known, nodes = set[str](), list[ast.AST](here)
    for _ in range(_ROUNDS):
        names = {each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)} - known
        names |= {each.attr for node in nodes for each in ast.walk(node) if isinstance(each, ast.Attribute)} - known
        known |= names
        nodes = [value for target, value in tree.assignments if isinstance(target, ast.Name) and target.id in names]
        definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        nodes += [each for each in tree.nodes if isinstance(each, definitions) and each.name in names]
        for node in nodes:
            first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
            inside = [each for each in found if first <= each.line <= last]
            if inside:
                return inside[0]
    return None
