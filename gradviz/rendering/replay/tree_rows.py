"""The rows of the tree while backward runs: which nodes have run, and which gradients have arrived."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from gradviz.analysis.replay.steps import State, Step
from gradviz.graph.gradients import holds_numbers
from gradviz.rendering.replay.step_words import ReplayWords
from gradviz.rendering.tree.cells import Cells, CellWriter
from gradviz.rendering.tree.column_widths import Line, Span, Table
from gradviz.rendering.tree.columns import GRADIENT_STYLES, Column, RowFacts, columns_named
from gradviz.rendering.tree.outline import outline
from gradviz.rendering.tree.signs import RAN, READY, RUNS, WAITS, Sign
from gradviz.rendering.words.common_words import counted

STATE_SIGNS: dict[State, Sign] = {
    "ran": RAN,
    "runs": RUNS,
    "ready": READY,
    "waits": WAITS,
}
STATE_WORDS: dict[State, str] = {
    "ran": "has run",
    "runs": "runs",
    "ready": "ready: all of its gradient has arrived",
    "waits": "waits for more of it",
}


_SAMPLE = 1_000
"""The number of evenly spaced rows that decide the widths of the columns."""


class ReplayRows:
    """The tree of a replay. Any part of it can be written, as it is at any step."""

    def __init__(self, words: ReplayWords, width: int) -> None:
        self._words, self._replay = words, words.replay
        subject = words.subject
        self._items = subject.view.items
        self._rows = outline(subject.graph, subject.view)
        has_numbers = any(holds_numbers(node.values) for node in subject.graph.nodes)
        usual = columns_named("name,value" if has_numbers else "name,shape")
        self._columns: tuple[Column, ...] = (
            *usual,
            Column("gradient", "", self._longest_gradient, 8, 20, styles=GRADIENT_STYLES),
            Column("step", "", self._steps_words, 4, 3, is_number=True),
        )
        writer = CellWriter(subject, self._columns, frozenset(), None)
        # Without the rows for lost gradients: the replay shows when a gradient is lost.
        self._cell_of = lru_cache(maxsize=4 * _SAMPLE)(lambda index: list(writer.cells(self._rows[index]))[-1])
        sample = range(0, len(self._rows), -(-len(self._rows) // _SAMPLE) or 1)
        self._table = Table([self._cell_of(index) for index in sample], self._columns, width, has_gutter=True)
        # The row that shows an item; if there is none, the first row that refers to it.
        self._row_of_item: dict[int | None, int] = {}
        for kind in ("reference", "item"):
            rows = reversed(list(enumerate(self._rows)))
            self._row_of_item.update({row.item: index for index, row in rows if row.kind == kind})

    def _longest_gradient(self, of: RowFacts) -> str:
        """The longest words that the column will show, for its width: before a sum is complete, they are longer."""
        numbers = self._replay.steps_of_item(of.item.id)
        entering = self._replay.step(numbers[0]).entering if numbers else []
        times = [len(self._replay), *(flow.step for flow in entering[:1])]
        return max((self._words.progress.gradient_at(of.item, at) for at in times), key=len)

    def _steps_words(self, of: RowFacts) -> str:
        if of.item.root is not None:
            return ""
        numbers = self._replay.steps_of_item(of.item.id)
        if len(numbers) > 1:
            return f"{numbers[0]}…{numbers[-1]}"
        return str(numbers[0]) if numbers else ""

    def __len__(self) -> int:
        return len(self._rows)

    def around(self, at: int, most: int) -> list[Line]:
        """The header and up to `most` rows: those around what runs in the step `at`."""
        first = self._first_row(self._replay.step(at) if at else None, most)
        shown = range(first, min(first + most, len(self._rows)))
        lines = [self._table.header()]
        lines += [self._table.line(self._cell(index, at)) for index in shown]
        beyond = ((first, "above"), (len(self) - shown.stop, "below"))
        hidden = [f"{counted(count, 'row')} {where}" for count, where in beyond if count]
        return [*lines, [Span(f"  … {', '.join(hidden)}", "dim")]] if hidden else lines

    def _first_row(self, step: Step | None, most: int) -> int:
        """A third of the rows shows what has run, the rest where the gradient goes."""
        index = 0 if step is None else min(self._row_of_item.get(item, 0) for item in step.items)
        return max(min(index - most // 3, len(self._rows) - most), 0)

    def _cell(self, index: int, at: int) -> Cells:
        row, cell = self._rows[index], self._cell_of(index)
        if row.item is None or row.kind not in ("item", "reference"):
            return cell
        item = self._items[row.item]
        state = self._replay.state_of(item, at)
        if row.kind == "reference":
            return replace(cell, gutter=RUNS if state == "runs" else None)
        if not cell.columns:  # a gradient that is cut off: its words run over all columns
            return cell
        gradient = self._words.progress.gradient_at(item, at)
        columns = (*cell.columns[:-2], gradient, cell.columns[-1])
        style = RUNS.style if state == "runs" else cell.style
        return replace(cell, columns=columns, gutter=STATE_SIGNS.get(state), style=style)


def legend(width: int) -> list[Line]:
    """The meaning of the signs before the rows, as many on a line as fit."""
    lines: list[Line] = [[]]
    for state, sign in STATE_SIGNS.items():
        entry = [Span(f"{sign.character} ", sign.style), Span(STATE_WORDS[state], "italic")]
        used = sum(len(span.text) for span in lines[-1])
        if used and used + sum(len(span.text) for span in entry) + 2 > width:
            lines.append([])
            used = 0
        lines[-1] += [Span("  " if used else ""), *entry]
    return lines
