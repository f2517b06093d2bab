"""Sines of two pi times a whole number, which is not divided by its period.

>>> tree = SourceTree(dict(enumerate('''hour = rng.integers(0, 24, 100)
... angle = 2 * np.pi * hour
... wave = np.sin(angle), np.cos(2 * np.pi * hour / 24), np.sin(2 * np.pi * phase)
... '''.splitlines(), start=1)))
>>> [(each.angle, each.wave, each.name) for each in sines_of_whole_turns(tree)]
[(2, 3, 'hour')]
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.rules.bases.sources.arguments import arguments
from gradviz.analysis.rules.bases.sources.arrays.resolved_values import source_of
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import Key, SourceTree, called_name, is_read, last_name

_WAVES = frozenset({"sin", "cos"})
_DRAWS = frozenset({"integers", "randint", "arange"})
_PARTS_OF_DATES = frozenset({"hour", "minute", "month", "day", "dayofweek", "weekday", "day_of_week", "dayofyear"})
_DATES = frozenset({"replace", "datetime", "Timestamp", "timedelta", "Timedelta", "assign", "DataFrame", "time"})
_MAX_STEPS = 4
_TURN = 2
_WITH_STEP = 3


class WholeTurns(Struct, frozen=True):
    """The line that makes the angles, the line that takes their sine, and what is multiplied."""

    angle: int
    wave: int
    name: str


def sines_of_whole_turns(tree: SourceTree) -> Iterator[WholeTurns]:
    """In the order of the source, one of each line of angles."""
    given = {key: value for key, value, _ in arguments(tree)}
    told = set[int]()
    for node in tree.nodes:
        if called_name(node) not in _WAVES or not isinstance(node, ast.Call) or len(node.args) != 1:
            continue
        angle = source_of(tree, node.args[0])
        factors = [] if angle is None else list(_factors(angle))
        rest = [each for each in factors if not isinstance(each, ast.Constant) and last_name(each) not in ("pi", "tau")]
        whole = [each.value for each in factors if isinstance(each, ast.Constant)]
        names = [last_name(each) for each in factors]
        is_turn = ("tau" in names and not whole) or ("pi" in names and whole in ([_TURN], [float(_TURN)]))
        if angle is None or not is_turn or len(rest) != 1 or angle.lineno in told:
            continue
        if _is_whole(tree, rest[0], given):
            told.add(angle.lineno)
            yield WholeTurns(angle.lineno, node.lineno, ast.unparse(rest[0]))


def _factors(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield from _factors(node.left)
        yield from _factors(node.right)
    else:
        yield node


def _is_whole(tree: SourceTree, node: ast.expr, given: dict[Key, ast.expr]) -> bool:
    """Whether an expression is made of whole numbers: drawn ones, a part of a date, or a remainder."""
    for _ in range(_MAX_STEPS):
        key = tree.key_of(node)
        if key is not None and key in given:
            node = given[key]
        source = source_of(tree, node)
        if source is None or source is node:
            break
        node = source
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.FloorDiv, ast.Mod)):
        return isinstance(node.op, ast.FloorDiv) or _is_whole(tree, node.left, given)
    if isinstance(node, ast.Attribute):
        return node.attr in _PARTS_OF_DATES and not _is_named_by_program(tree, node.attr)
    if called_name(node) not in _DRAWS or not isinstance(node, ast.Call):
        return False
    is_in_steps = called_name(node) == "arange" and any(each.arg == "step" for each in node.keywords)
    numbers = [each.value for each in node.args if isinstance(each, ast.Constant)]
    is_of_ones = called_name(node) != "arange" or (len(node.args) < _WITH_STEP and not is_in_steps)
    return all(isinstance(each, int) for each in numbers) and is_of_ones


def _is_named_by_program(tree: SourceTree, name: str) -> bool:
    """Whether the program has an attribute of this name, which may hold a share of a day or of a year: it sets it, or
    gives it to an object that it makes."""
    for node in tree.nodes:
        is_given = isinstance(node, ast.keyword) and node.arg == name and called_name(tree.parent(node)) not in _DATES  # type: ignore[arg-type]
        is_set = isinstance(node, ast.Attribute) and node.attr == name and not is_read(node)
        is_field = isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == name
        if is_given or is_set or is_field or (isinstance(node, FUNCTIONS) and node.name == name):
            return True
    return False
