"""What the functions of a file are given, where one call gives it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import Key, SourceTree, called_name, given_to, last_name


def arguments(tree: SourceTree) -> Iterator[tuple[Key, ast.expr, ast.Call]]:
    """The arguments of functions that one call of the file calls, each with the variable that it becomes.

    A call of the only object of a module calls its ``forward()``.
    """
    calls: dict[str, list[ast.Call]] = {}
    for node in tree.nodes:
        if isinstance(node, ast.Call):
            calls.setdefault(called_name(node), []).append(node)
    for function in tree.nodes:
        if not isinstance(function, FUNCTIONS):
            continue
        around = tree.parent(function)
        is_maker = function.name == "__init__" and isinstance(around, ast.ClassDef)
        name = around.name if is_maker and isinstance(around, ast.ClassDef) else function.name
        if function.name == "forward" and isinstance(around, ast.ClassDef):
            name = _only_object(tree, around.name)
        if not name or len(calls.get(name, ())) != 1:
            continue
        (call,) = calls[name]
        yield from ((Key(function.lineno, parameter), value, call) for parameter, value in given_to(function, call))


def _only_object(tree: SourceTree, class_name: str) -> str:
    """The name of the only object that is made of a class: ``loss_of``, and also ``self.loss_of``; "" if there are
    several, or none."""
    made = [node for node in tree.nodes if isinstance(node, ast.Call) and called_name(node) == class_name]
    targets = [target for target, value in tree.assignments if value in made]
    return last_name(targets[0]) if len(made) == len(targets) == 1 else ""
