"""The line of a custom function's backward that decides whether it computes a gradient."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from gradviz.analysis.finding import Location
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import tree_of
from gradviz.graph.call_log import Definition


def line_that_left_out(lines: Mapping[int, str], definition: Definition, index: int) -> Location | None:
    """The ``if`` around all lines that compute the gradient of an input, where backward returned None for it.

    Args:
        index: the place of the gradient among those that are returned.
    """
    tree = tree_of(lines)
    function = next((each for each in tree.nodes if _is_of(each, definition)), None)
    name = None if function is None else _returned_name(function, definition, index)
    if function is None or name is None:
        return None
    inside = set(ast.walk(function))
    makers = [
        target
        for target, value in tree.assignments
        if target in inside and _is_named(target, name) and not _is_none(value)
    ]
    conditions = [next((each for each in tree.around(maker) if isinstance(each, ast.If)), None) for maker in makers]
    found = {each for each in conditions if each is not None and each in inside}
    return Location(definition.file, found.pop().lineno) if len(found) == 1 and None not in conditions else None


def _is_of(node: ast.AST, definition: Definition) -> bool:
    return isinstance(node, FUNCTIONS) and definition.first_line <= node.lineno <= definition.last_line


def _returned_name(function: ast.AST, definition: Definition, index: int) -> str | None:
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and definition.returns[-1:] == (node.lineno,):
            given = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value] * (index == 0)
            value = given[index] if index < len(given) else None
            return value.id if isinstance(value, ast.Name) else None
    return None


def _is_named(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Name) and target.id == name


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None
