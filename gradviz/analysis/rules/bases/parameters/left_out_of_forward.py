"""Parts of a module that one of its methods uses, and its ``forward()`` does not.

>>> tree = SourceTree(dict(enumerate('''class Adapted:
...     def __init__(self):
...         self.base, self.low = Linear(4, 4), Parameter(zeros(2, 4))
...     def forward(self, x):
...         return self.base(x)
...     def merged(self):
...         return self.base.weight + self.low.T @ self.low
... '''.splitlines(), start=1)))
>>> forward_without(tree, 3, ("net", "low"))
LeftOut(forward=5, other='merged')
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.sources.own_files import own_tree
from gradviz.analysis.sources.source_tree import SourceTree


class LeftOut(NamedTuple):
    """Where a part should be used."""

    forward: int
    """The line at which ``forward()`` returns."""
    other: str
    """The method that uses the part."""


def forward_that_leaves_out(case: Case, number: int) -> tuple[Location, str] | None:
    """The line at which the ``forward()`` of a module returns without a parameter that another method of it uses, or
    that only a copy of the model follows, and the name of that method."""
    made, path = case.histories.made_by(number), case.histories.name(number).split(".")
    is_followed = case.histories.is_only_copied(number)
    for line in () if made is None else callers(case.dataflow, made):
        tree = own_tree(case, line.file)
        found = None if tree is None else forward_without(tree, line.line, path, is_followed=is_followed)
        if found is not None:
            return Location(line.file, found.forward), found.other
    return None


def forward_without(tree: SourceTree, made: int, path: Sequence[str], *, is_followed: bool = False) -> LeftOut | None:
    """The same for a parameter that a line of a class makes, with the parts of its name."""
    statement = tree.statement_at(made)
    owner = None if statement is None else tree.class_around(statement)
    if statement is None or owner is None:
        return None
    attributes = {each.attr for each in ast.walk(statement) if isinstance(each, ast.Attribute) and _is_set(each)}
    methods = {each.name: each for each in owner.body if isinstance(each, ast.FunctionDef)}
    for attribute in attributes.intersection(path):
        users = [
            name
            for name, method in methods.items()
            if attribute in _read(method) and name not in _MAKERS and _computes_with(method, attribute)
        ]
        forward = methods.get("forward")
        if forward is not None and (users or is_followed) and not _reaches(methods, forward, attribute):
            ends = [each for each in ast.walk(forward) if isinstance(each, ast.Return)]
            return LeftOut(ends[-1].lineno, next(iter(users), "")) if ends else None
    return None


_MAKERS = ("__init__", "reset_parameters", "extra_repr")


def _is_set(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store) and getattr(node.value, "id", None) == "self"


def _read(method: ast.AST) -> set[str]:
    """The attributes of ``self`` that it reads; also those by a text, as for ``getattr()``."""
    return set(_attributes(method))


def _attributes(method: ast.AST) -> Iterator[str]:
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", None) == "self":
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _computes_with(method: ast.FunctionDef, attribute: str) -> bool:
    """Whether it does more than to read the number, for a log."""
    read = [each for each in ast.walk(method) if isinstance(each, ast.Attribute) and each.attr == attribute]
    numbers = {
        id(each.value)
        for each in ast.walk(method)
        if isinstance(each, ast.Attribute) and each.attr in ("item", "tolist", "detach")
    }
    return any(id(each) not in numbers for each in read)


def _reaches(methods: dict[str, ast.FunctionDef], start: ast.FunctionDef, attribute: str) -> bool:
    """Whether a method reads an attribute, or hands `self` on, itself or through other methods of the class."""
    waiting, seen = [start], {start.name}
    while waiting:
        method = waiting.pop()
        read = _read(method)
        if attribute in read or _hands_on(method):
            return True
        for name in (read & methods.keys()) - seen:
            seen.add(name)
            waiting.append(methods[name])
    return False


def _hands_on(method: ast.FunctionDef) -> bool:
    """Whether it gives the module itself to a function, calls that of a base class, or goes over all its parts."""
    for node in ast.walk(method):
        if isinstance(node, ast.Call):
            given = [*node.args, *(each.value for each in node.keywords)]
            if any(isinstance(each, ast.Name) and each.id == "self" for each in given):
                return True
            if isinstance(node.func, ast.Name) and node.func.id == "super":
                return True
    return not _OVER_ALL.isdisjoint(_read(method))


_OVER_ALL = frozenset({"parameters", "named_parameters", "children", "named_children", "modules", "named_modules"})
