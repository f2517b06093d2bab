"""Schedules of learning rates that a program writes itself, and which variable they were given for their optimizer.

>>> tree = SourceTree(dict(enumerate('''class Warmup:
...     def __init__(self, opt):
...         self.groups = opt.param_groups
...     def set(self, rate):
...         for group in self.groups:
...             group["lr"] = rate
... opt = SGD(params)
... plan = Warmup(opt)
... opt = Adam(params)
... '''.splitlines(), start=1)))
>>> [(each.schedule, each.variable, each.given, each.replaced) for each in outdated_schedules(tree)]
[('Warmup', 'opt', 8, 9)]
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import SourceTree, called_name


class OutdatedSchedule(Struct, frozen=True):
    """A schedule that was given an optimizer, whose variable then gets another one."""

    schedule: str
    variable: str
    """The variable as source."""
    given: int
    """The line that makes the schedule."""
    replaced: int
    """The line that gives the variable its second optimizer."""


_BOTH = 2


def outdated_schedules(tree: SourceTree) -> Iterator[OutdatedSchedule]:
    """Only schedules that are made once, of variables that get an optimizer twice: before it, and after it."""
    setters = set(_setters(tree))
    assigned: dict[str, list[ast.expr]] = defaultdict(list)
    for target, value in tree.assignments:
        if isinstance(value, ast.Call):
            assigned[ast.unparse(target)].append(target)
    calls: dict[str, list[ast.Call]] = defaultdict(list)
    for node in tree.nodes:
        if isinstance(node, ast.Call) and called_name(node) in setters:
            calls[called_name(node)].append(node)
    for name, made in calls.items():
        for given in made[0].args if len(made) == 1 else ():
            targets = sorted(assigned.get(ast.unparse(given), ()), key=lambda each: each.lineno)
            if len(targets) == _BOTH and targets[0].lineno < made[0].lineno < targets[1].lineno:
                yield OutdatedSchedule(name, ast.unparse(given), made[0].lineno, targets[1].lineno)


def _setters(tree: SourceTree) -> Iterator[str]:
    """Classes that set the learning rate of a group, and functions that return what does."""
    for node in tree.nodes:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
        )
        if not any(_is_rate(target) for target in targets):
            continue
        around = [each for each in tree.around(node) if isinstance(each, (ast.ClassDef, *FUNCTIONS))]
        owner = next((each for each in around if isinstance(each, ast.ClassDef)), None)
        if owner is not None:
            yield owner.name
        elif len(around) >= _BOTH:
            yield around[-1].name


def _is_rate(target: ast.expr) -> bool:
    """``group["lr"]``."""
    is_item = isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant)
    return is_item and isinstance(target, ast.Subscript) and getattr(target.slice, "value", None) == "lr"
