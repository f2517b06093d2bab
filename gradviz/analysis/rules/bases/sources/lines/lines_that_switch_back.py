"""The line that puts a part of a model back into training mode, between two calls of it."""

from __future__ import annotations

import ast
from collections import defaultdict

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.sources.lines.lines_of_training import switches
from gradviz.analysis.rules.bases.sources.own_files import own_files
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import (
    SourceTree,
    all_parameters_of,
    called_name,
    last_line,
    last_name,
    tree_of,
)
from gradviz.graph.traversal import scopes_around

_Place = tuple[str, ast.AST]
"""A file, and one of its functions, or the module itself."""


def line_that_switches_back(case: Case, last: int, row: int) -> Location | None:
    """The line with ``train()`` that runs between two calls of a part of a model, by loops and the names of functions:
    one that names the model rather than one of what a function or an object was given, in the innermost loop.

    Args:
        last: a call in the part, while it was in evaluation mode.
        row: a later one, in training mode.
    """
    between, scopes = _Between(case, last, row), case.dataflow.log.scopes
    around = scopes_around(scopes, case.dataflow.log.calls[row].scope)
    names = {name for scope in around for name in scopes[scope].path.split(".") if name}
    found = [
        (name not in names, size, Location(file, node.lineno))
        for file, tree in own_files(case)
        for node in tree.nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and switches(node) == "on"
        if (name := last_name(node.func.value)) in names or _is_given(tree, node.func.value)
        if (size := between.lines_of_loop(file, tree, node))
    ]
    return min(found, key=lambda each: each[:2])[2] if found else None


def _is_given(tree: SourceTree, model: ast.expr) -> bool:
    """Whether a function or an object was given a model, so that its name tells nothing."""
    function = tree.scope(model)
    given = all_parameters_of(function) if isinstance(function, FUNCTIONS) else set[str]()
    parts = [each.id for each in ast.walk(model) if isinstance(each, ast.Name)]
    return isinstance(model, ast.Name | ast.Attribute) and bool({*given, "self"}.intersection(parts))


class _Between:
    """Which lines run between two calls."""

    def __init__(self, case: Case, last: int, row: int) -> None:
        self._calls = defaultdict[str, list[tuple[str, SourceTree, ast.Call]]](list)
        """The calls of the program by the name of what they call."""
        for file, tree in own_files(case):
            for node in tree.nodes:
                if isinstance(node, ast.Call):
                    self._calls[called_name(node)].append((file, tree, node))
        stacks = [defaultdict[_Place, set[int]](set) for _ in (last, row)]
        for stack, each in zip(stacks, (last, row), strict=True):
            for site in callers(case.dataflow, each):
                tree = tree_of(case.capture.sources.get(site.file, {}))
                statement = tree.statement_at(site.line)
                if statement is not None:
                    stack[site.file, tree.scope(statement)].add(site.line)
        self._running = {place: stacks[0][place] | lines for place, lines in stacks[1].items() if place in stacks[0]}
        """For each function that both calls ran in, the lines that led to them."""

    def lines_of_loop(self, file: str, tree: SourceTree, node: ast.AST) -> int:
        """How many lines the smallest loop has that runs a node, and both calls; 0 where none does."""
        waiting, seen, found = [(file, tree, node)], set[ast.AST](), list[int]()
        while waiting:
            file, tree, node = waiting.pop()
            scope = tree.scope(node)
            running = self._running.get((file, scope))
            if running is not None:
                ranges = (range(loop.lineno, last_line(loop) + 1) for loop in tree.loops_around(node))
                found += [len(lines) for lines in ranges if running.issubset(lines)]
            elif scope not in seen and isinstance(scope, FUNCTIONS):
                seen.add(scope)
                waiting += self._calls[_name_to_call(tree, scope)]
        return min(found, default=0)


def _name_to_call(tree: SourceTree, function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The name by which a function is called: that of its class for ``__exit__()``."""
    owner = tree.parent(function)
    return owner.name if isinstance(owner, ast.ClassDef) and function.name.startswith("__") else function.name
