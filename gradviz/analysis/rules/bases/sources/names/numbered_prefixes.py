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

from gradviz.analysis.rules.bases.sources.names.conditions_on_names import loops_over_names
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, called_name, parameters_of

_ENDS_WITH_DIGIT = re.compile(r"(.*\D)(\d)")
_MOST = 60
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
    for name, part in loops_over_names(tree):
        for node in ast.walk(part):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
                within, looked_for = node.comparators[0], node.left
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                within, looked_for = node.func.value, node.args[0]
            else:
                continue
            if isinstance(within, ast.Name) and within.id == name and called_name(node) in ("", "startswith"):
                yield from _prefixes(tree, looked_for)


def _prefixes(tree: SourceTree, looked_for: ast.expr) -> Iterator[NumberedPrefix]:
    """The texts that an expression stands for: itself, its elements, or what a comprehension makes of numbers."""
    waiting, seen = [looked_for], 0
    while waiting and seen < _MOST:
        node, seen = waiting.pop(0), seen + 1
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = _ENDS_WITH_DIGIT.fullmatch(node.value)
            if found is not None:
                yield NumberedPrefix(node.lineno, found[1], frozenset({int(found[2])}))
        elif isinstance(node, ast.JoinedStr):
            yield from _of_counted(tree, node)
        elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            waiting += node.elts
        elif isinstance(node, ast.BinOp):
            waiting += [node.left, node.right]
        elif isinstance(node, (ast.GeneratorExp, ast.ListComp, ast.SetComp)):
            waiting.append(node.elt)
        elif isinstance(node, ast.Call) and called_name(node) in ("tuple", "list", "set"):
            waiting += node.args
        elif isinstance(node, (ast.Name, ast.Attribute)):
            values = tree.values_of(tree.key_of(node))
            loops = (each for each in tree.around(node) if hasattr(each, "generators"))
            over = [loop.iter for each in loops for loop in each.generators if _is_same_name(loop.target, node)]
            waiting += over or values


def _is_same_name(one: ast.expr, other: ast.expr) -> bool:
    return isinstance(one, ast.Name) and isinstance(other, ast.Name) and one.id == other.id


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
            if _is_same_name(loop.target, number):
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
    given = _given(tree, node) if isinstance(node, ast.Name) else []
    values = {_number(tree, each, deep - 1) for each in given}
    return values.pop() if len(values) == 1 else None


def _given(tree: SourceTree, name: ast.Name) -> list[ast.expr]:
    """What the calls in the file give to a parameter of the function around a name; else its default."""
    function = next((each for each in tree.around(name) if isinstance(each, FUNCTIONS)), None)
    names = [] if function is None else parameters_of(function)
    if function is None or name.id not in names:
        return []
    place = names.index(name.id)
    found = list[ast.expr]()
    for call in tree.nodes:
        if isinstance(call, ast.Call) and called_name(call) == function.name:
            found += [each.value for each in call.keywords if each.arg == name.id]
            found += call.args[place : place + 1]
    defaults = function.args.defaults[place - len(names) :] if len(names) - place <= len(function.args.defaults) else []
    return found or defaults[:1]
