"""The line that decides which of two objects is called first, where one line of a program calls both in turn.

Such are the plugins and callbacks of a framework: what one of them does is right, and only its turn is wrong.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.call_words import callers, class_of, function_of
from gradviz.analysis.finding import Location, location_of_line
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import (
    Key,
    SourceTree,
    called_name,
    defaults_of,
    given_to,
    last_name,
    set_in_class,
)


class TurnOfTwo(Struct, frozen=True):
    """Two classes or functions of a program, in the order in which they are called."""

    line: Location
    """Where the first one has its place in this order."""
    first: str
    second: str
    cure: str
    """What lets the first one come after the second."""


def turn_of_two(case: Case, first: int, second: int) -> TurnOfTwo | None:
    """What puts the code of one call before that of another; None unless the source decides it."""
    names = _called_in_turn(case, first, second)
    if names is None:
        return None
    source = case.program_source
    found = next(_turns_by_attribute(source.tree, *names), None) or next(_turns_in_lists(source.tree, *names), None)
    return None if found is None else TurnOfTwo(source.location(found[0]), *names, found[1])


def _called_in_turn(case: Case, first: int, second: int) -> tuple[str, str] | None:
    """The classes, or the functions, from which two calls came, if one line of the program called them without their
    names."""
    lines = [[*callers(case.dataflow, row)] for row in (first, second)]
    places = {(line.file, line.line, line.function): number for number, line in enumerate(lines[1])}
    for number, line in enumerate(lines[0]):
        other = places.get((line.file, line.line, line.function))
        if other is not None:
            inner = [each[at - 1] for each, at in zip(lines, (number, other), strict=True) if at]
            names = [(class_of(each) or function_of(each)).rpartition(".")[2] for each in inner]
            text = case.source_line(location_of_line(line)) or ""
            is_by_name = any(name in text for name in names)
            return None if is_by_name or len({*names}) < len(lines) else (names[0], names[1])
    return None


# -- by an attribute ---------------------------------------------------------------------------------------------------


def _turns_by_attribute(tree: SourceTree, first: str, second: str) -> Iterator[tuple[int, str]]:
    """The line that gives the first class the attribute by which the program sorts objects, and how to mend it."""
    for attribute, is_downward in _sorted_by(tree):
        values = [_value_of(tree, name, attribute) for name in (first, second)]
        numbers = [None if each is None else _number(tree, each) for each in values]
        if values[0] is None or numbers[0] is None or numbers[1] is None or numbers[0] == numbers[1]:
            continue
        if (numbers[0] < numbers[1]) != is_downward:
            side = "below" if is_downward else "above"
            yield values[0].lineno, f"give {first} one {side} {numbers[1]}, the {attribute} of {second}"


def _sorted_by(tree: SourceTree) -> Iterator[tuple[str, bool]]:
    """Attributes by which ``sorted()`` or ``sort()`` order objects, and whether the highest comes first."""
    for node in tree.nodes:
        if not isinstance(node, ast.Call) or called_name(node) not in ("sorted", "sort"):
            continue
        given = {each.arg: each.value for each in node.keywords}
        key, reverse = given.get("key"), given.get("reverse")
        is_reversed = isinstance(reverse, ast.Constant) and bool(reverse.value)
        body = key.body if isinstance(key, ast.Lambda) else key
        if isinstance(body, ast.Tuple) and body.elts:
            body = body.elts[0]
        if isinstance(body, ast.UnaryOp) and isinstance(body.op, ast.USub):
            body, is_reversed = body.operand, not is_reversed
        texts = (
            [each.value for each in body.args if isinstance(each, ast.Constant)] if isinstance(body, ast.Call) else []
        )
        if isinstance(key, ast.Lambda) and isinstance(body, ast.Attribute):
            yield body.attr, is_reversed
        elif called_name(body or node) in ("attrgetter", "getattr") and texts:
            yield str(texts[0]), is_reversed


def _value_of(tree: SourceTree, name: str, attribute: str) -> ast.expr | None:
    """What a class gives to an attribute of its objects, in its body, its ``__init__`` or by a decorator."""
    classes = [each for each in tree.nodes if isinstance(each, ast.ClassDef) and each.name == name]
    if len(classes) != 1:
        return None
    values = [value for set_name, value in set_in_class(classes[0]) if set_name == attribute]
    values += tree.values_of(Key(classes[0].lineno, f"self.{attribute}"))
    for decorator in classes[0].decorator_list:
        values += _given_by_decorator(tree, decorator, attribute)
    return values[0] if len(values) == 1 else None


def _given_by_decorator(tree: SourceTree, decorator: ast.expr, attribute: str) -> Iterator[ast.expr]:
    """The argument that ``@plugin("clip", priority=10)`` sets as an attribute: ``cls.priority = priority``."""
    functions = [each for each in tree.nodes if isinstance(each, FUNCTIONS) and each.name == called_name(decorator)]
    if not isinstance(decorator, ast.Call) or len(functions) != 1:
        return
    given = {**dict(defaults_of(functions[0])), **dict(given_to(functions[0], decorator))}
    inside = {*ast.walk(functions[0])}
    for target, value in tree.assignments:
        if target in inside and isinstance(target, ast.Attribute) and target.attr == attribute:
            found = given.get(last_name(value))
            if found is not None:
                yield found


def _number(tree: SourceTree, node: ast.expr) -> float | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _number(tree, node.operand)
        return None if number is None else -number
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    return tree.number(node)


# -- in a list ---------------------------------------------------------------------------------------------------------


def _turns_in_lists(tree: SourceTree, first: str, second: str) -> Iterator[tuple[int, str]]:
    """The line in the only list of the program that names both, the first one first, and that no sort reorders."""
    if any(_value_of(tree, first, attribute) is not None for attribute, _ in _sorted_by(tree)):
        return
    found = list[ast.expr]()
    for node in tree.nodes:
        if isinstance(node, (ast.List, ast.Tuple)) and called_name(tree.parent(node) or node) not in _ASK_FOR_CLASSES:
            names = [called_name(each) or last_name(each) for each in node.elts]
            if first in names and second in names:
                found.append(node.elts[names.index(first)])
                if names.index(first) > names.index(second):
                    return
    if len(found) == 1:
        yield found[0].lineno, f"put {second} before {first}"


_ASK_FOR_CLASSES = frozenset({"isinstance", "issubclass"})
