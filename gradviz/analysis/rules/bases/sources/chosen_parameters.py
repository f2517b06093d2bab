"""The line that chooses, by a condition, which of a model's parameters an optimizer is given.

>>> lines = ["def make(model):", "    big = [p for p in model.parameters() if p.ndim > 1]", "    return Adam(big)"]
>>> line_that_chooses(dict(enumerate(lines, start=1)), 3)
2
>>> lines = ["def some(model):", "    return [p for p in model.parameters() if p.ndim > 1]", "adam = Adam(some(model))"]
>>> line_that_chooses(dict(enumerate(lines, start=1)), 3)
2
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Location
from gradviz.analysis.sources.source_tree import COMPREHENSIONS, SourceTree, called_name, last_line, tree_of

_ALL = ("parameters", "named_parameters")
_FILLS = ("append", "extend", "add")


def place_that_chooses(case: Case, made: Location | None, *, of_any_list: bool = False) -> Location | None:
    """The line whose condition decides what another line gives to an optimizer, if there is one."""
    lines = {} if made is None else case.capture.sources.get(made.file, {})
    line = None if made is None else line_that_chooses(lines, made.line, of_any_list=of_any_list)
    return None if made is None or line is None else Location(made.file, line)


def line_that_chooses(lines: Mapping[int, str], made: int, *, of_any_list: bool = False) -> int | None:
    """The last condition on parameters in the function that makes an optimizer, if what it gives depends on one.

    Args:
        made: the line that makes the optimizer, or calls something else with parameters.
        of_any_list: also conditions on the elements of other things than ``parameters()``, such as a list of them.
    """
    if not lines:
        return None
    tree = tree_of(lines)
    making = [each for each in tree.nodes if isinstance(each, ast.Call) and each.lineno <= made <= last_line(each)]
    given = [each for call in making for each in (*call.args, *(keyword.value for keyword in call.keywords))]
    found = [line for value in given for line in _conditions(tree, value, of_any_list)]
    return max(found, default=None)


def _conditions(tree: SourceTree, value: ast.expr, of_any_list: bool) -> Iterator[int]:
    """The lines of conditions on which parameters are in a value, in the variables that it is made of, and in what
    functions of the file return for it."""
    waiting, seen = [value], set[object]()
    while waiting:
        for node in ast.walk(waiting.pop()):
            if isinstance(node, COMPREHENSIONS):
                yield from _filters(node, of_any_list)
            if isinstance(node, ast.Call) and called_name(node) not in seen:
                seen.add(called_name(node))
                waiting += _results(tree, called_name(node))
            key = tree.key_of(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
            if key is None or key in seen:
                continue
            seen.add(key)
            waiting += tree.values_of(key)
            yield from (line for use in tree.nodes if tree.key_of(use) == key for line in _fill(tree, use))


def _results(tree: SourceTree, name: str) -> list[ast.expr]:
    """What a function of the same file returns, if no other one there has its name."""
    made = [each for each in tree.nodes if isinstance(each, ast.FunctionDef) and each.name == name]
    returned = (each for function in made if len(made) == 1 for each in ast.walk(function))
    return [each.value for each in returned if isinstance(each, ast.Return) and each.value is not None]


def _filters(node: ast.AST, of_any_list: bool) -> Iterator[int]:
    for loop in getattr(node, "generators", ()):
        if loop.ifs and (of_any_list or _goes_over_all(loop.iter)):
            yield loop.ifs[0].lineno


def _fill(tree: SourceTree, use: ast.AST) -> Iterator[int]:
    """The line of the condition under which a loop over all parameters puts one into a list."""
    call = tree.parent(tree.parent(use) or use)
    if called_name(call or use) not in _FILLS or not any(_goes_over_all(loop.iter) for loop in _loops(tree, use)):
        return
    condition = next((each for each in tree.around(use) if isinstance(each, ast.If)), None)
    if condition is not None:
        yield condition.lineno


def _loops(tree: SourceTree, use: ast.AST) -> Iterator[ast.For]:
    return (loop for loop in tree.loops_around(use) if isinstance(loop, ast.For))


def _goes_over_all(iterated: ast.expr) -> bool:
    return any(called_name(node) in _ALL for node in ast.walk(iterated))
