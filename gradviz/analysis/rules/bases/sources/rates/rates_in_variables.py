"""Variables that an optimizer got its learning rate from, which a loop changes afterwards and nothing reads.

>>> tree = SourceTree(dict(enumerate('''rate = 0.1
... optimizer = SGD(model.parameters(), lr=rate)
... for epoch in range(9):
...     train()
...     rate *= 0.5
...     print(epoch, rate)
... '''.splitlines(), start=1)))
>>> [(each.name, each.given, each.line) for each in idle_rates(tree)]
[('rate', 2, 5)]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.parsed_lines import READ_ALL
from gradviz.analysis.sources.source_tree import Key, SourceTree, called_name, is_read, last_name


class IdleRate(Struct, frozen=True):
    """A variable that a loop gives another value, which only it and what is shown reads."""

    name: str
    given: int
    """The line of the optimizer that got its first value."""
    line: int
    """The line that changes it."""


_SHOWS = frozenset({"print", "info", "debug", "log", "format", "append", "write", "set_postfix", "set_description"})


def idle_rates(tree: SourceTree) -> Iterator[IdleRate]:
    if any(isinstance(node, ast.Name) and node.id in READ_ALL for node in tree.nodes):
        return
    for call in tree.nodes:
        rate = _rate_of(call)
        key = None if rate is None else tree.key_of(rate)
        if rate is None or key is None or next(tree.loops_around(rate), None) is not None:
            continue
        if isinstance(rate, ast.Attribute) and _is_read_elsewhere(tree, key, rate.attr):
            continue
        for statement in _changes(tree, key, rate.lineno):
            inside = next(tree.loops_around(statement), None)
            if inside is not None and not _is_used(tree, key, rate, statement):
                yield IdleRate(ast.unparse(rate), rate.lineno, statement.lineno)
                break


def _rate_of(node: ast.AST) -> ast.Name | ast.Attribute | None:
    """The variable that a call gets as ``lr``."""
    if not isinstance(node, ast.Call):
        return None
    values = [each.value for each in node.keywords if each.arg == "lr"]
    return next((each for each in values if isinstance(each, (ast.Name, ast.Attribute))), None)


def _is_read_elsewhere(tree: SourceTree, key: Key, name: str) -> bool:
    """Whether an attribute is read as that of an object of the class, by its name as text, or with all others."""
    owner = next((each.name for each in tree.nodes if isinstance(each, ast.ClassDef) and each.lineno == key.owner), "")
    objects = {tree.key_of(target) for target, value in tree.assignments if called_name(value) == owner} - {None}
    for node in tree.nodes:
        is_read_of = isinstance(node, ast.Attribute) and is_read(node) and node.attr == name
        if is_read_of and isinstance(node, ast.Attribute) and tree.key_of(node.value) in objects:
            return True
        is_by_name = isinstance(node, ast.Call) and called_name(node) in _BY_NAME
        if is_by_name and any(isinstance(each, ast.Constant) and each.value == name for each in ast.walk(node)):
            return True
    return any(isinstance(node, ast.Attribute) and node.attr == "__dict__" for node in tree.nodes)


_BY_NAME = frozenset({"getattr", "attrgetter"})


def _changes(tree: SourceTree, key: Key, after: int) -> Iterator[ast.Assign | ast.AugAssign]:
    """The assignments of the variable below a line, without those that read the rate of an optimizer."""
    for node in tree.nodes:
        if isinstance(node, (ast.Assign, ast.AugAssign)) and node.lineno > after:
            if any(last_name(each) in _OF_OPTIMIZER for each in ast.walk(node.value)):
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(tree.key_of(each) == key for each in targets):
                yield node


_OF_OPTIMIZER = frozenset({"param_groups", "get_last_lr", "get_lr"})


def _is_used(tree: SourceTree, key: Key, given: ast.AST, change: ast.AST) -> bool:
    """Whether anything else than the optimizer, the change itself and what is shown reads the variable."""
    for node in tree.nodes:
        if not isinstance(node, (ast.Name, ast.Attribute)) or not is_read(node) or tree.key_of(node) != key:
            continue
        around = list(tree.around(node))
        is_shown = any(called_name(each) in _SHOWS or isinstance(each, ast.JoinedStr) for each in around)
        if node is not given and change not in around and not is_shown:
            return True
    return False
