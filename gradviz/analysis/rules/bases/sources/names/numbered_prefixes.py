"""Beginnings of names that end with a number and nothing behind it: ``"blocks.1"`` begins ``blocks.10`` as well.

>>> lines = '''def freeze(model, count):
...     first = ("embed",) + tuple(f"blocks.{i}" for i in range(count))
...     for name, p in model.named_parameters():
...         p.requires_grad_(not name.startswith(first))
...         if "layer.1" in name or name.startswith("layer.2."):
...             p.requires_grad = False
... freeze(model, count=DEPTH - 2)
... DEPTH = 12
... '''.splitlines()
>>> for found in numbered_prefixes(SourceTree(dict(enumerate(lines, start=1)))):
...     print(found.line, found.stem, None if found.numbers is None else sorted(found.numbers))
5 layer. [1]
2 blocks. [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.rules.bases.sources.names.conditions_on_names import (
    compared_with,
    loops_over_names,
    parts_of,
)
from gradviz.analysis.rules.bases.sources.names.values_in_source import given_by_calls
from gradviz.analysis.sources.source_tree import SourceTree, called_name

_ENDS_WITH_DIGIT = re.compile(r"(.*\D)(\d)")
_DEEP = 6
_MAX_COUNT = 1_000


class NumberedPrefix(Struct, frozen=True):
    """A text that names of parameters are compared with."""

    line: int
    stem: str
    """What stands before the number: ``blocks.``."""
    numbers: frozenset[int] | None
    """The numbers that the program writes or counts; None if they are not known."""


def numbered_prefixes(tree: SourceTree) -> Iterator[NumberedPrefix]:
    """Those in loops and comprehensions over the names of parameters or modules."""
    for name, loop in loops_over_names(tree):
        for looked_for, way in compared_with(loop, name):
            if way != "endswith":
                yield from _prefixes(tree, loop, looked_for)


def _prefixes(tree: SourceTree, loop: ast.AST, looked_for: ast.expr) -> Iterator[NumberedPrefix]:
    """The texts that an expression stands for, also those that are put together, or that a comprehension makes."""
    waiting, seen = [looked_for], 0
    while waiting and seen < _MOST:
        expression, seen = waiting.pop(0), seen + 1
        for node in parts_of(tree, loop, expression):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found = _ENDS_WITH_DIGIT.fullmatch(node.value)
                if found is not None:
                    yield NumberedPrefix(node.lineno, found[1], frozenset({int(found[2])}))
            elif isinstance(node, ast.JoinedStr):
                yield from _of_counted(tree, node)
            elif isinstance(node, ast.BinOp):
                waiting += [node.left, node.right]
            elif isinstance(node, (ast.GeneratorExp, ast.ListComp, ast.SetComp)):
                waiting.append(node.elt)


_MOST = 60
"""A name that an import gives may be put together with itself: ``NAMES = NAMES + ["blocks.1"]``."""


def _of_counted(tree: SourceTree, text: ast.JoinedStr) -> Iterator[NumberedPrefix]:
    """``f"blocks.{i}"``, where a loop counts ``i``."""
    *before, last = text.values
    stem = before[-1].value if before and isinstance(before[-1], ast.Constant) else None
    number = last.value if isinstance(last, ast.FormattedValue) else None
    if not isinstance(stem, str) or not isinstance(number, ast.Name):
        return
    for each in tree.around(text):
        loops = [each] if isinstance(each, ast.For) else getattr(each, "generators", [])
        for loop in loops:
            if isinstance(loop.target, ast.Name) and loop.target.id == number.id:
                yield NumberedPrefix(text.lineno, stem, _counted(tree, loop.iter))
                return


def _counted(tree: SourceTree, over: ast.expr) -> frozenset[int] | None:
    if called_name(over) != "range" or not isinstance(over, ast.Call):
        literal = over.elts if isinstance(over, (ast.List, ast.Tuple, ast.Set)) else []
        numbers = [_number(tree, each, _DEEP) for each in literal]
        return frozenset(each for each in numbers if each is not None) if numbers and None not in numbers else None
    ends = [_number(tree, each, _DEEP) for each in over.args]
    known = [each for each in ends if each is not None]
    is_known = known == ends and 0 < len(known) <= len(("start", "stop")) and max(map(abs, known)) <= _MAX_COUNT
    return frozenset(range(*known)) if is_known else None


def _number(tree: SourceTree, node: ast.expr, deep: int) -> int | None:
    """What an expression counts: a number, sums and differences of such, or what all calls of a function give it."""
    known = tree.number(node)
    if known is not None or not deep:
        return known
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        left, right = _number(tree, node.left, deep - 1), _number(tree, node.right, deep - 1)
        if left is None or right is None:
            return None
        return left + right if isinstance(node.op, ast.Add) else left - right
    given = given_by_calls(tree, node) if isinstance(node, ast.Name) else []
    values = {_number(tree, each, deep - 1) for each in given}
    return values.pop() if len(values) == 1 else None
