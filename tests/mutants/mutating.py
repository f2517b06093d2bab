"""Makes mutants of a module: its source with one small change that should make a test fail.

The changes are those of cosmic-ray, and one more, which it does not have: a statement that is left out.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import ndiff
from typing import Any

import cosmic_ray.plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

Position = tuple[int, int]

_CHANGE_NOTHING = (
    # What is the same object is equal, and small numbers, strings and None are the same object where they are equal.
    "ReplaceComparisonOperator_Is_Eq",
    "ReplaceComparisonOperator_IsNot_NotEq",
    "ReplaceComparisonOperator_Eq_Is",
    "ReplaceComparisonOperator_NotEq_IsNot",
    # Any test that imports the module notices.
    "RemoveDecorator",
    "VariableReplacer",
    "VariableInserter",
)
_QUIET_KEYWORDS = frozenset({"strict", "frozen", "slots", "omit_defaults", "key_only", "maxsize"})
"""``zip(strict=True)`` and its like guard against mistakes of ours: right code gives the same with and without."""


@dataclass(frozen=True)
class Mutant:
    """A module with one change."""

    line: int
    operator: str
    source: str
    removed: str
    """The lines that the change replaced, without their indentation."""
    added: str


def sample(source: str, size: int, seed: str) -> list[Mutant]:
    """Up to `size` mutants, each at another position; the same ones for the same source and seed."""
    generator = random.Random(seed)
    by_position: dict[Position, list[tuple[str, int]]] = {}
    skipped = _skipped_ranges(ast.parse(source))
    for position, operator, occurrence in _all_changes(source):
        if not any(start <= position < end for start, end in skipped):
            by_position.setdefault(position, []).append((operator, occurrence))
    positions = sorted(by_position)
    generator.shuffle(positions)
    mutants: list[Mutant] = []
    for position in positions:
        operator, occurrence = generator.choice(by_position[position])
        mutant = _mutant(source, position[0], operator, occurrence)
        if len(mutants) < size and mutant is not None:
            mutants.append(mutant)
    return sorted(mutants, key=lambda mutant: mutant.line)


def _all_changes(source: str) -> Iterator[tuple[Position, str, int]]:
    """Where each operator can change something, and the how manieth change of that operator it is."""
    nodes = list(ast_nodes(get_ast(source)))
    for name in cosmic_ray.plugins.operator_names():
        operator_class = cosmic_ray.plugins.get_operator(name)
        if name.partition("/")[2] not in _CHANGE_NOTHING and not operator_class.arguments():
            operator = operator_class()
            found = (start for node in nodes for start, _ in operator.mutation_positions(node))
            yield from ((tuple(start), name, occurrence) for occurrence, start in enumerate(found))
    for occurrence, statement in enumerate(_statements(source)):
        yield (statement.lineno, statement.col_offset), _LEAVE_OUT, occurrence


_LEAVE_OUT = "leave out a statement"


def _statements(source: str) -> list[ast.stmt]:
    """Those that can be left out without a name being missed: calls, and changes of what exists already."""
    functions = (each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.FunctionDef))
    inside = (statement for function in functions for statement in ast.walk(function))
    return [statement for statement in inside if isinstance(statement, ast.stmt) and _can_be_left_out(statement)]


def _can_be_left_out(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Call)
    if isinstance(statement, ast.Assign):
        return all(isinstance(target, (ast.Attribute, ast.Subscript)) for target in statement.targets)
    return isinstance(statement, (ast.AugAssign, ast.Delete))


def _mutant(source: str, line: int, operator: str, occurrence: int) -> Mutant | None:
    if operator == _LEAVE_OUT:
        changed: str | None = _without(source, _statements(source)[occurrence])
    else:
        changed = mutate_code(source, cosmic_ray.plugins.get_operator(operator)(), occurrence)
    if changed is None or changed == source:
        return None
    difference = list(ndiff(source.splitlines(), changed.splitlines()))
    removed, added = (" ".join(each[2:].strip() for each in difference if each.startswith(sign)) for sign in "-+")
    return Mutant(line, operator.rpartition("/")[2], changed, removed, added)


def _without(source: str, statement: ast.stmt) -> str:
    lines = source.splitlines(keepends=True)
    indentation = lines[statement.lineno - 1][: statement.col_offset]
    assert statement.end_lineno is not None
    lines[statement.lineno - 1 : statement.end_lineno] = [f"{indentation}pass\n"]
    return "".join(lines)


def _skipped_ranges(tree: ast.Module) -> list[tuple[Position, Position]]:
    """Where a change would change nothing that runs: annotations, options of classes, and `_QUIET_KEYWORDS`."""
    nodes: list[Any] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.AnnAssign, ast.arg)) and node.annotation is not None:
            nodes.append(node.annotation)
        elif isinstance(node, ast.FunctionDef):
            nodes.extend(filter(None, [node.returns, *node.decorator_list]))
        elif isinstance(node, ast.ClassDef):
            nodes.extend([*node.keywords, *node.decorator_list])
        elif isinstance(node, ast.keyword) and node.arg in _QUIET_KEYWORDS:
            nodes.append(node)
    return [((each.lineno, each.col_offset), (each.end_lineno, each.end_col_offset)) for each in nodes]
