"""What the calls of a run say of the lines of one file: what ran at all, and which loops ran more than once."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cached_property

from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.sources.parsed_lines import FUNCTIONS
from gradviz.analysis.sources.source_tree import LOOPS, Loop, SourceTree, called_name
from gradviz.graph.query.own_line import own_lines_around

_TWICE = 2


class LinesThatRan:
    """The calls of a run by the lines of one file."""

    def __init__(self, flow: Dataflow, file: str) -> None:
        self._flow, self._file = flow, file

    def rows_in(self, first: int, last: int) -> list[int]:
        """The calls that these lines made, also through functions that they call."""
        found = {row for line in range(first, last + 1) for row in self._rows_by_line.get(line, ())}
        return sorted(found)

    def moments(self, rows: list[int]) -> int:
        """Between how many backward calls these calls lie."""
        return len({self._flow.backward_before(row) for row in rows})

    def has_backward(self, rows: list[int]) -> bool:
        return any(self._flow.log.calls[row].kind == "backward" for row in rows)

    def runs_again(self, tree: SourceTree, loop: Loop) -> bool:
        """Whether a loop ran more than once: it counts so far, or a line of it ran at two times."""
        times = _times(tree, loop)
        if times is not None:
            return times >= _TWICE
        for first, last in own_statements(loop):
            rows = self.rows_in(first, last)
            lines = (self._flow.line_of(row) for row in rows if self._flow.log.calls[row].kind == "backward")
            own = [line for line in lines if line is not None and first <= line.line <= last]
            if len(own) >= _TWICE or (self.moments(rows) >= _TWICE and not self.has_backward(rows)):
                return True
        return False

    @cached_property
    def _rows_by_line(self) -> dict[int, list[int]]:
        sites, lines_of = self._flow.log.call_sites, dict[int, set[int]]()
        found: dict[int, list[int]] = defaultdict(list)
        for row, call in enumerate(self._flow.log.calls):
            site = call.call_site
            if site is None:
                continue
            if site not in lines_of:
                around = (sites[each] for each in own_lines_around(sites, site))
                lines_of[site] = {each.line for each in around if each.file == self._file}
            for line in lines_of[site]:
                found[line].append(row)
        return dict(found)


def _times(tree: SourceTree, loop: Loop) -> int | None:
    """How often ``for ... in range(number)`` runs; None for other loops and other numbers."""
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call) or called_name(loop.iter) != "range":
        return None
    numbers = [tree.number(each) for each in loop.iter.args]
    known = [each for each in numbers if each is not None]
    return len(range(*known)) if len(known) == len(numbers) and all(known[2:]) and known else None


def own_statements(loop: Loop) -> list[tuple[int, int]]:
    """The first and last lines of the statements in a loop that no other loop or function in it repeats."""
    waiting: list[ast.stmt] = list(loop.body)
    found = list[tuple[int, int]]()
    while waiting:
        statement = waiting.pop()
        if isinstance(statement, (*LOOPS, *FUNCTIONS)):
            continue
        inner = [each for each in ast.iter_child_nodes(statement) if isinstance(each, ast.stmt)]
        waiting += inner
        if not inner:
            found.append((statement.lineno, statement.end_lineno or statement.lineno))
    return found
