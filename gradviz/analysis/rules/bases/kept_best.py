"""Whether a program itself takes a larger or a smaller number for better, as its lines say that keep the best one.

>>> lines = dict(enumerate('''for epoch in range(9):
...     score = evaluate()
...     schedule.step(score)
...     if epoch > 2 and score > best:
...         best, state = score, model.state_dict()
... '''.splitlines(), start=1))
>>> better_than_best(lines, 3)
'max'
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Literal

from gradviz.analysis.sources.parsed_lines import function_around, parsed

Better = Literal["max", "min"]
_VARIABLES = ast.Name | ast.Attribute | ast.Subscript
_TURNED: dict[Better, Better] = {"max": "min", "min": "max"}


def better_than_best(lines: Mapping[int, str], line: int) -> Better | None:
    """What is better of the number that the call of ``step()`` on a line is told, in the function around it.

    Something that is called ``best`` takes its value where it is larger, or where it is smaller: with ``if``, or with
    ``max()`` and ``min()``.
    """
    numbers = function_around(lines, line)
    tree = None if numbers is None else parsed([lines[number] for number in numbers])
    if numbers is None or tree is None:
        return None
    nodes = list(ast.walk(tree[0]))
    told = _told(nodes, line - numbers[0] - tree[1] + 1)
    found = set() if told is None else {better for node in nodes for better in _kept(node, told)}
    return next(iter(found)) if len(found) == 1 else None


def _told(nodes: list[ast.AST], line: int) -> str | None:
    """The variable that is told, as source."""
    for node in nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "step":
            continue
        if node.lineno <= line <= (node.end_lineno or line) and len(node.args) == 1:
            (argument,) = node.args
            return ast.unparse(argument) if isinstance(argument, _VARIABLES) else None
    return None


def _kept(node: ast.AST, told: str) -> Iterator[Better]:
    if isinstance(node, ast.If):
        assigned = {
            ast.unparse(target) for each in node.body for target, value in _assignments(each) if told in _parts(value)
        }
        conditions = node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
        for each in conditions:
            compared = _compared(each, told)
            if compared is not None and compared[0] in assigned:
                yield compared[1]
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
        function, targets = ast.unparse(node.value.func), {ast.unparse(each) for each in node.targets}
        given = {ast.unparse(each) for each in node.value.args}
        if function in _TURNED and told in given and any(_is_best(each) for each in targets & given):
            yield "max" if function == "max" else "min"


def _compared(condition: ast.expr, told: str) -> tuple[str, Better] | None:
    """What is called the best of ``told > best``, and which is better; None for other comparisons."""
    if not isinstance(condition, ast.Compare) or len(condition.ops) != 1:
        return None
    left, right = ast.unparse(condition.left), ast.unparse(condition.comparators[0])
    is_larger = isinstance(condition.ops[0], ast.Gt | ast.GtE)
    if told not in (left, right) or not (is_larger or isinstance(condition.ops[0], ast.Lt | ast.LtE)):
        return None
    best: str = right if left == told else left
    better: Better = "max" if is_larger else "min"
    return (best, better if left == told else _TURNED[better]) if _is_best(best) else None


def _assignments(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    if not isinstance(statement, ast.Assign):
        return
    for target in statement.targets:
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            yield from zip(target.elts, statement.value.elts, strict=False)
        else:
            yield target, statement.value


def _parts(value: ast.expr) -> set[str]:
    """A value, and what a call such as ``float(value)`` is given."""
    return {ast.unparse(value), *(ast.unparse(each) for each in (value.args if isinstance(value, ast.Call) else ()))}


def _is_best(name: str) -> bool:
    return "best" in name.lower()
