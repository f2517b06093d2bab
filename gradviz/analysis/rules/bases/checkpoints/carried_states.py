"""State that a function reads as an earlier call of it left it, and that it changes.

>>> tree = SourceTree(dict(enumerate('''class Layer:
...     def forward(self, x):
...         self.clear()
...         self.calls += 1
...         if self.mask is None:
...             self.mask = ones(x)
...         context = cat(self.memory, x)
...         self.memory = x.detach()
...         self.weights = softmax(context)
...         seen.append(x)
...         self.total = self.total + self.hidden
...         self.hidden = x
...         return self.attend(context) / len(seen)
...     def clear(self):
...         self.hidden = None
...     def attend(self, x):
...         return x * self.mask
... seen = []
... '''.splitlines(), start=1)))
>>> forward = next(each for each in tree.nodes if getattr(each, "name", "") == "forward")
>>> for each in carried_states(tree, forward):
...     print(each.name, lines_of(each.reads), lines_of(each.writes), lines_of(each.made_once))
self.mask [17] [] [6]
self.memory [7] [8] []
seen [13] [10] []
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator

from msgspec import Struct

from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import Key, SourceTree, first_line, is_read, last_name

Function = ast.FunctionDef | ast.AsyncFunctionDef
_CHANGES = frozenset({
    "append", "appendleft", "add", "clear", "extend", "insert", "pop", "popleft", "popitem", "remove", "setdefault",
    "update",
})  # fmt: skip
_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try)
_DEEPEST = 8


class Carried(Struct, frozen=True):
    """A variable that outlives the call of a function."""

    key: Key
    reads: tuple[ast.stmt, ...]
    """The statements that may compute with what an earlier call left in it."""
    writes: tuple[ast.stmt, ...]
    """Those that change it."""
    made_once: tuple[ast.stmt, ...]
    """Those that only do so where it is not there yet, as they ask first."""

    @property
    def name(self) -> str:
        return self.key.name


class _Access(Struct, frozen=True):
    statement: ast.stmt
    is_write: bool
    is_certain: bool
    """Whether each call of the function gets there."""


def lines_of(statements: Iterable[ast.stmt]) -> list[int]:
    return [each.lineno for each in statements]


def carried_states(tree: SourceTree, function: Function) -> list[Carried]:
    """Those of one function and of the methods of the same object that it calls, in the order of the first reads."""
    accesses: dict[Key, list[_Access]] = defaultdict(list)
    for key, access in _accesses(tree, function, function, True, ()):
        accesses[key].append(access)
    found = (_carried(tree, key, each) for key, each in accesses.items())
    return [each for each in found if each is not None]


def _carried(tree: SourceTree, key: Key, accesses: list[_Access]) -> Carried | None:
    reads, writes, made_once = list[ast.stmt](), list[ast.stmt](), list[ast.stmt]()
    is_set = False
    for access in accesses:
        statement = access.statement
        if access.is_write:
            is_guarded = _is_guarded(tree, statement, key)
            (made_once if is_guarded else writes).append(statement)
            is_set |= access.is_certain and not is_guarded and _replaces(tree, statement, key)
        elif not is_set and _computes(tree, statement, key):
            reads.append(statement)
    changing = [*writes, *made_once]
    reads = [each for each in reads if not all(_exclude_each_other(tree, each, write) for write in changing)]
    return Carried(key, tuple(reads), tuple(writes), tuple(made_once)) if reads and changing else None


# -- what statements read and change -----------------------------------------------------------------------------------


def _accesses(
    tree: SourceTree, function: Function, root: Function, is_certain: bool, inside: tuple[Function, ...]
) -> Iterator[tuple[Key, _Access]]:
    """What a function reads and changes, in the order of its source; what it calls stands where it calls it."""
    waiting: list[tuple[ast.stmt, bool]] = [(each, is_certain) for each in reversed(function.body)]
    while waiting:
        statement, certain = waiting.pop()
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            continue
        nodes = _own_nodes(statement)
        for node in nodes:
            if isinstance(node, (ast.Name, ast.Attribute)) and is_read(node):
                key = _outliving(tree, node, function)
                if key is not None:
                    yield key, _Access(statement, False, certain)
        for method in _called_methods(tree, nodes, function):
            if method not in inside and method is not root and len(inside) < _DEEPEST:
                yield from _accesses(tree, method, root, certain, (*inside, function))
        for node in nodes:
            key = _changed_by(tree, node, function)
            if key is not None:
                yield key, _Access(statement, True, certain)
        certain = certain and not isinstance(statement, _BRANCHES)
        waiting += [(each, certain) for each in reversed(_statements_in(statement))]


def _own_nodes(statement: ast.stmt) -> list[ast.AST]:
    """The nodes of a statement without those of the statements in it: what a call is given comes before the call."""
    waiting, found = list[ast.AST]([statement]), list[ast.AST]()
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += [
            each
            for each in ast.iter_child_nodes(node)
            if not isinstance(each, (ast.stmt, ast.excepthandler, ast.match_case))
        ]
    return found[::-1]


def _statements_in(statement: ast.stmt) -> list[ast.stmt]:
    found = list[ast.stmt]()
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            found.append(child)
        elif isinstance(child, (ast.ExceptHandler, ast.match_case)):
            found += child.body
    return found


def _outliving(tree: SourceTree, node: ast.AST, function: Function) -> Key | None:
    """The variable that a node names, if it outlives the function: an attribute of ``self``, or one from around it."""
    if isinstance(node, ast.Attribute):
        return tree.key_of(node)
    key = tree.key_of(node) if isinstance(node, ast.Name) and node.id != "self" else None
    return key if key is not None and (key.owner < first_line(function) or _is_given(function, key.name)) else None


def _is_given(function: Function, name: str) -> bool:
    return any(each.arg == name for each in ast.walk(function.args) if isinstance(each, ast.arg))


def _changed_by(tree: SourceTree, node: ast.AST, function: Function) -> Key | None:
    """The variable that a node sets, or whose object it changes; what a function is given is only changed."""
    target: ast.AST | None = None
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
        if isinstance(node, ast.Name) and _is_given(function, node.id):
            return None
        target = node
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_change(node.func.attr):
        target = node.func.value
    while isinstance(target, ast.Subscript) or (isinstance(target, ast.Attribute) and target.attr == "data"):
        target = target.value
    return None if target is None else _outliving(tree, target, function)


def _is_change(method: str) -> bool:
    return method in _CHANGES or (method.endswith("_") and not method.startswith("_") and method != "requires_grad_")


def _called_methods(tree: SourceTree, nodes: list[ast.AST], function: Function) -> list[Function]:
    """The methods of the same class, and the functions of the file, that some nodes call."""
    owner = tree.class_around(function)
    found = list[Function]()
    for node in nodes:
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and last_name(called.value) == "self" and owner is not None:
            body = owner.body
        elif isinstance(called, ast.Name):
            body = tree.module.body
        else:
            continue
        name = last_name(called)
        found += [each for each in body if isinstance(each, FUNCTIONS) and each.name == name]
    return found


# -- which of them count -----------------------------------------------------------------------------------------------


def _names(tree: SourceTree, node: ast.AST, key: Key) -> bool:
    """Whether something reads a variable."""
    return any(
        isinstance(each, (ast.Name, ast.Attribute)) and is_read(each) and tree.key_of(each) == key
        for each in ast.walk(node)
    )


def _is_guarded(tree: SourceTree, statement: ast.stmt, key: Key) -> bool:
    """Whether a statement stands in a branch that asks for the variable first: what is missing is made there."""
    return any(isinstance(each, ast.If) and _names(tree, each.test, key) for each in tree.around(statement))


def _replaces(tree: SourceTree, statement: ast.stmt, key: Key) -> bool:
    """Whether a statement gives a variable a new value that does not depend on the old one."""
    if isinstance(statement, ast.Expr):
        call = statement.value
        return isinstance(call, ast.Call) and last_name(call.func) in ("clear", "zero_", "fill_", "copy_")
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    is_whole = any(each is not None and tree.key_of(each) == key for each in targets)
    value = getattr(statement, "value", None)
    return is_whole and not isinstance(statement, ast.AugAssign) and value is not None and not _names(tree, value, key)


def _computes(tree: SourceTree, statement: ast.stmt, key: Key) -> bool:
    """Whether what a statement reads in a variable may become part of the result, not only of the variable itself."""
    if isinstance(statement, (ast.Expr, ast.Assert, ast.Raise, ast.Delete)):
        return False
    if isinstance(statement, ast.AugAssign):
        return tree.key_of(_root(statement.target)) != key
    if isinstance(statement, ast.Assign):
        return any(tree.key_of(_root(each)) != key for each in statement.targets)
    if isinstance(statement, ast.If):
        return any(not _only_notes(tree, each, key) for each in (*statement.body, *statement.orelse))
    return True


def _only_notes(tree: SourceTree, statement: ast.stmt, key: Key) -> bool:
    """Whether a statement of a branch prints, raises, or sets the variable itself."""
    if isinstance(statement, (ast.Expr, ast.Pass, ast.Raise)):
        return True
    return isinstance(statement, (ast.Assign, ast.AugAssign)) and not _computes(tree, statement, key)


def _root(target: ast.AST) -> ast.AST:
    while isinstance(target, ast.Subscript) or (isinstance(target, ast.Attribute) and target.attr == "data"):
        target = target.value
    return target


def _exclude_each_other(tree: SourceTree, statement: ast.stmt, other: ast.stmt) -> bool:
    """Whether the two stand in the two branches of one condition."""
    sides = dict[ast.AST, bool]()
    for each, first in ((statement, True), (other, False)):
        below: ast.AST = each
        for around in tree.around(each):
            if isinstance(around, ast.If):
                is_in_body = below in around.body
                if not first and sides.get(around, is_in_body) != is_in_body:
                    return True
                sides.setdefault(around, is_in_body)
            below = around
    return False
