"""Loop variables that a line gives another value, which the loop never reads: what they stood for stays as it is.

>>> lines = '''for group in zip(*models):
...     mean = torch.stack(group).mean(0)
...     for p in group:
...         p = mean.clone()
... '''.splitlines()
>>> tree = SourceTree(dict(enumerate(lines, start=1)))
>>> [line for line in range(1, 5) if loses_loop_variable(tree, line)]
[4]
"""

from __future__ import annotations

import ast

from gradviz.analysis.case import Case
from gradviz.analysis.finding import Location
from gradviz.analysis.sources.source_tree import SourceTree, tree_of


class LostNames:
    """The lines that give a loop's variable another value, which nothing reads."""

    def __init__(self, case: Case) -> None:
        self._sources = case.capture.sources
        self._known: dict[tuple[Location, bool], bool] = {}

    def is_at(self, here: Location, *, or_assigned: bool = False) -> bool:
        key = here, or_assigned
        if key not in self._known:
            lines = self._sources.get(here.file, {})
            is_lost = bool(lines) and loses_loop_variable(tree_of(lines), here.line, or_assigned=or_assigned)
            self._known[key] = is_lost
        return self._known[key]


def loses_loop_variable(tree: SourceTree, line: int, *, or_assigned: bool = False) -> bool:
    """Whether a line assigns to the plain name of a loop over it, and nothing in the loop reads the name after it.

    Args:
        or_assigned: also a name that an earlier line of the loop gave its first value.
    """
    for node in tree.nodes:
        if not isinstance(node, ast.Assign) or node.lineno != line or len(node.targets) != 1:
            continue
        target, end = node.targets[0], node.end_lineno or node.lineno
        loop = next((each for each in tree.loops_around(node) if isinstance(each, ast.For)), None)
        if loop is None or not isinstance(target, ast.Name):
            continue
        names = [each for each in ast.walk(loop) if isinstance(each, ast.Name) and each.id == target.id]
        of_loop = {each for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
        is_bound = any(each in of_loop or (or_assigned and _is_set_before(each, line)) for each in names)
        if is_bound and not any(isinstance(each.ctx, ast.Load) and each.lineno > end for each in names):
            return True
    return False


def _is_set_before(name: ast.Name, line: int) -> bool:
    return isinstance(name.ctx, ast.Store) and name.lineno < line
