"""Expressions that number the categories which occur in some values: equal values get other numbers in other data."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import (
    COMPREHENSIONS,
    Key,
    SourceTree,
    called_name,
    is_read,
    last_name,
    names_in,
)

_MAX_DEPTH = 6
_ONLY_VALUES = frozenset({"set", "unique"})
"""They leave each category once."""


class Numbered(Struct, frozen=True):
    """Values that were numbered."""

    line: int
    """The line that numbers them."""
    entry: ast.expr
    """The call that does, or that calls a function which does, where the search began."""
    is_of_argument: bool
    """Whether each call of the function around `entry` numbers what it is given."""


def numbered_at(tree: SourceTree, node: ast.expr) -> Numbered | None:
    """How the values of an expression were numbered, also by functions of the program and in attributes of ``self``."""
    return next(_numbered(tree, node, _MAX_DEPTH, {node}), None)


def lines_of_data_sets(tree: SourceTree) -> Iterator[int]:
    """The lines of classes that number the categories in what they are made of, to look up those of single items; of
    classes of which a program makes several objects."""
    for node in tree.nodes:
        if not isinstance(node, ast.ClassDef) or not _is_made_again(tree, node.name):
            continue
        methods = {each.name: each for each in node.body if isinstance(each, FUNCTIONS)}
        made, read = methods.get("__init__"), methods.get("__getitem__")
        looked_up = [each for part in ast.walk(read) if (each := _looked_up(part))] if made and read else []
        for table, item in looked_up:
            values = [each for each in _values_of(tree, table) if tree.scope(each) is made]
            ways = [each for each in values if _is_one_of_two_ways(tree, each, tree.scope(each))]
            for once in _values_once(tree, values[0], _MAX_DEPTH) if values and not ways else ():
                if _sources_of(tree, item, _MAX_DEPTH) & _sources_of(tree, once, _MAX_DEPTH):
                    yield once.lineno
                    break


def _is_made_again(tree: SourceTree, name: str) -> bool:
    """Whether a program makes several objects of a class."""
    calls = [each for each in tree.nodes if called_name(each) == name]
    return len(calls) > 1 or any(
        isinstance(each, COMPREHENSIONS) for call in calls for each in (*tree.around(call), *tree.loops_around(call))
    )


def _looked_up(node: ast.AST) -> tuple[ast.Attribute, ast.expr] | None:
    """The table and the item of ``self.places[name]`` and ``self.names.index(name)``."""
    match node:
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self")) as table, slice=item):
            return table, item
        case ast.Call(
            func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self")) as table, attr="index"), args=[item]
        ):
            return table, item
    return None


def _values_once(tree: SourceTree, value: ast.expr, depth: int) -> Iterator[ast.expr]:
    """What makes each category appear once, where an expression puts them in order."""
    for node in ast.walk(value):
        if isinstance(node, ast.SetComp) or called_name(node) in _ONLY_VALUES:
            yield node  # type: ignore[misc]
        elif depth and isinstance(node, (ast.Name, ast.Attribute)) and is_read(node):
            for each in _values_of(tree, node):
                if called_name(each) in ("sorted", "unique", "list"):
                    yield from _values_once(tree, each, depth - 1)


def _sources_of(tree: SourceTree, node: ast.AST, depth: int) -> set[Key]:
    """The arguments, variables and attributes of which the values of an expression come, without those of the module,
    which are the same for all objects."""
    found = set[Key]()
    for read in ast.walk(node):
        is_variable = isinstance(read, (ast.Name, ast.Attribute)) and is_read(read)
        key = tree.key_of(read) if is_variable and last_name(read) != "self" else None
        if key is None or not key.owner:
            continue
        values = list(_values_of(tree, read)) if depth and isinstance(read, (ast.Name, ast.Attribute)) else []
        found |= {key}.union(*(_sources_of(tree, each, depth - 1) for each in values))
    return found


def _numbered(tree: SourceTree, node: ast.expr, depth: int, seen: set[ast.AST]) -> Iterator[Numbered]:
    function = tree.scope(node)
    given = _given(tree, function)
    for call in (each for each in ast.walk(node) if isinstance(each, ast.expr)):
        inner = _in_function(tree, call, depth, seen)
        if inner is not None:
            names = {name for part in _arguments(call) for name in names_in(part)}
            yield Numbered(inner.line, call, bool(names & given))
        elif _is_numbering(tree, call) and not _is_one_of_two_ways(tree, call, function):
            names = names_in(call)
            yield Numbered(call.lineno, call, bool(names & given))
    if depth:
        for read in (each for each in ast.walk(node) if isinstance(each, (ast.Name, ast.Attribute)) and is_read(each)):
            for value in _values_of(tree, read):
                if value not in seen:
                    seen.add(value)
                    yield from _numbered(tree, value, depth - 1, seen)


def _in_function(tree: SourceTree, call: ast.expr, depth: int, seen: set[ast.AST]) -> Numbered | None:
    """How a function of the program that is called numbers what it is given."""
    name = called_name(call)
    functions = [each for each in tree.nodes if isinstance(each, FUNCTIONS) and each.name == name] if name else []
    if len(functions) != 1 or not depth or functions[0] in seen:
        return None
    returned = [each for each in ast.walk(functions[0]) if isinstance(each, ast.Return)]
    if len(returned) != 1 or returned[0].value is None:
        return None  # one of two ways
    found = _numbered(tree, returned[0].value, depth - 1, {*seen, functions[0]})
    return next((each for each in found if each.is_of_argument), None)


def _arguments(call: ast.expr) -> list[ast.expr]:
    return [*call.args, *(each.value for each in call.keywords)] if isinstance(call, ast.Call) else []


def _values_of(tree: SourceTree, read: ast.Name | ast.Attribute) -> Iterator[ast.expr]:
    """What a variable is given, if the source gives it a value once; of ``values, numbers = np.unique(...)``, what
    ``numbers`` is."""
    key = tree.key_of(read)
    if key is None or tree.times_bound(key) != 1:
        return
    for target, value in tree.assignments:
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        place = next((place for place, each in enumerate(parts) if tree.key_of(each) == key), None)
        # The values themselves are the same in all parts of the data: `unique` has them first.
        if place is not None and not (isinstance(target, ast.Tuple) and called_name(value) == "unique" and not place):
            yield value
    for node in tree.nodes:
        if isinstance(node, ast.Call) and called_name(node) == "append" and isinstance(node.func, ast.Attribute):
            yield from node.args if tree.key_of(node.func.value) == key else ()


def _given(tree: SourceTree, function: ast.AST) -> set[str]:
    """The names of the arguments of a function, and of what it computes of them."""
    if not isinstance(function, (*FUNCTIONS, ast.Lambda)):
        return set()
    found = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)} - {"self"}
    for _ in range(_MAX_DEPTH):
        for node in ast.walk(function):
            bound = _bound(node)
            if bound is not None and found & names_in(bound[1]):
                found |= names_in(bound[0])
    return found


def _bound(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    if isinstance(node, ast.Assign):
        return node.targets[0], node.value
    return (node.target, node.iter) if isinstance(node, (ast.For, ast.comprehension)) else None


def _is_numbering(tree: SourceTree, node: ast.expr) -> bool:
    """``np.unique(x, return_inverse=True)``, ``pd.factorize(x)``, ``x.astype("category").cat.codes``; and where ``x``
    is looked up in ``known = sorted(set(x))``: ``{v: i for i, v in enumerate(known)}``, ``known.index(v)``."""
    if isinstance(node, ast.Attribute):
        return node.attr == "codes" and isinstance(node.value, ast.Attribute) and node.value.attr == "cat"
    if called_name(node) == "factorize":
        return True
    if isinstance(node, ast.Call) and called_name(node) == "unique":
        return any(each.arg == "return_inverse" for each in node.keywords)
    if isinstance(node, ast.DictComp):
        return _is_table_of_values(tree, node)
    if isinstance(node, ast.Call) and called_name(node) in ("index", "searchsorted"):
        known = node.func.value if called_name(node) == "index" else next(iter(node.args), None)  # type: ignore[attr-defined]
        return _has_one_of(tree.statement_around(node), _values_left_once(tree, known))
    return False


def _is_table_of_values(tree: SourceTree, node: ast.DictComp) -> bool:
    """Whether a dict numbers the categories in the values that are then looked up in it."""
    counted, assigned = node.generators[0].iter, tree.parent(node)
    values = _values_left_once(tree, next(iter(_arguments(counted)), None))
    if called_name(counted) != "enumerate" or not isinstance(assigned, ast.Assign) or not values:
        return False
    table = tree.key_of(assigned.targets[0])
    names = (each for each in tree.nodes if isinstance(each, (ast.Name, ast.Attribute)))
    reads = (each for each in names if is_read(each) and tree.scope(each) is tree.scope(node))
    return any(tree.key_of(each) == table and _has_one_of(tree.statement_around(each), values) for each in reads)


def _values_left_once(tree: SourceTree, node: ast.expr | None) -> set[str]:
    """Of ``sorted(set(x))`` or ``np.unique(x)``, or of a variable that the same function gives it: ``x``."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        function = tree.scope(node)
        node = next((each for each in _values_of(tree, node) if tree.scope(each) is function), None)
    calls = [each for each in (ast.walk(node) if node is not None else ()) if isinstance(each, ast.Call)]
    return {ast.dump(each.args[0]) for each in calls if called_name(each) in _ONLY_VALUES and each.args}


def _has_one_of(statement: ast.AST | None, values: set[str]) -> bool:
    nodes = ast.walk(statement) if statement is not None and values else ()
    return any(isinstance(each, ast.expr) and ast.dump(each) in values for each in nodes)


def _is_one_of_two_ways(tree: SourceTree, node: ast.AST, function: ast.AST) -> bool:
    """Whether other data are numbered in another way: beside ``if``, or where a variable has another value."""
    for each in tree.around(node):
        if each is function:
            break
        if isinstance(each, (ast.IfExp, ast.BoolOp, ast.Try)) or (isinstance(each, ast.If) and each.orelse):
            return True
        if isinstance(each, ast.If):
            tested = {ast.dump(name) for name in ast.walk(each.test) if isinstance(name, (ast.Name, ast.Attribute))}
            bound = [_bound(inner) for inner in ast.walk(each)]
            targets = {
                ast.dump(name).replace("Store()", "Load()")
                for pair in bound
                if pair is not None
                for name in ast.walk(pair[0])
            }
            if tested & targets:
                return True
    return False
