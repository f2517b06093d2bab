"""The steps from the rows of a tree to its output: rows left out, order reversed, headings added, numbers added.

Each step maps rows to rows. Upside down, a tree reads like a picture: from the leaves down to the loss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from gradviz.graph.model import Graph
from gradviz.rendering.tree.rows import CUT_LINE, Row, walked_rows
from gradviz.view.model import View

SMALLEST_GAP = 2
"""A single row takes no more space than the line that would say that it is left out."""


def outline(graph: Graph, view: View, *, upside_down: bool = False, wanted: Collection[int] | None = None) -> list[Row]:
    """The rows of the tree of `view`, from top to bottom.

    Args:
        upside_down: leaves first, in the direction of the data.
        wanted: ids of the items to show, and of open boxes whose start to show. Rows between these and their branches
            are left out and counted. None for all.
    """
    rows = walked_rows(graph, view)
    shown = None if wanted is None else _with_their_branches(rows, view, wanted)
    if upside_down:
        rows = _turned_over(rows)
        shown = None if shown is None else {len(rows) - 1 - index for index in shown}
    boxes = _boxes(rows, view, upside_down)
    thinned = list(enumerate(rows)) if shown is None else list(_with_gaps(rows, shown))
    return _numbered(list(_with_headings(thinned, boxes)))


def _turned_over(rows: Sequence[Row]) -> list[Row]:
    # The lines that ran above a row run below it now, so each row gets the lines of the one before it.
    above = ["", *(row.above for row in reversed(rows))]
    return [
        replace(row, lines=row.lines.replace("└", "┌"), above=lines, is_above=not row.is_above)
        for row, lines in zip(reversed(rows), above, strict=False)
    ]


def _with_their_branches(rows: Sequence[Row], view: View, wanted: Collection[int]) -> set[int]:
    """Indices of the wanted rows, the rows that they branch from, the starts, and the first rows of wanted boxes."""
    shown: set[int] = set()
    columns: list[tuple[int, ...]] = []
    """For each open column, the indices of its first row, where it is indented, and of its last row."""
    unbegun = {item for item in wanted if view.items[item].is_open}
    for index, row in enumerate(rows):
        depth = len(row.lines) // 2
        if not row.is_aside:
            first = (index,) if row.lines.endswith(("─", CUT_LINE)) else columns[depth][:1] if depth else ()
            columns[depth:] = [(*first, index)]
        assert row.item is not None, "only headings and gaps have no item"
        item = view.items[row.item]
        begun = _around(view, item.parent) & unbegun if unbegun and not row.is_aside else set()
        unbegun -= begun
        is_start = not index or item.kind in ("root", "refused")
        if begun or is_start or (row.kind == "item" and item.id in wanted):
            shown.update((index, *chain.from_iterable(columns[: depth + 1])))
    return shown


def _around(view: View, box: int | None) -> set[int]:
    found = set()
    while box is not None:
        found.add(box)
        box = view.items[box].parent
    return found


def _boxes(rows: Sequence[Row], view: View, upside_down: bool) -> list[int | None]:
    """For each row, the open box of the operation that it shows or that it belongs to."""
    boxes: list[int | None] = [None] * len(rows)
    box = None
    # The operation precedes the rows that belong to it, or follows them if the tree is upside down.
    for index in reversed(range(len(rows))) if upside_down else range(len(rows)):
        if not rows[index].is_aside:
            box = view.items[rows[index].item or 0].parent
        boxes[index] = box
    return boxes


def _with_gaps(rows: Sequence[Row], shown: Collection[int]) -> Iterator[tuple[int | None, Row]]:
    """The rows to show with their indices, and between them the number of rows left out."""
    begin = 0
    for index in [*sorted(shown), len(rows)]:
        if index - begin < SMALLEST_GAP:
            yield from enumerate(rows[begin:index], begin)
        else:
            below = rows[index].above if index < len(rows) else ""
            yield None, Row("gap", min(rows[begin].above, below, key=len), hidden=index - begin)
        if index < len(rows):
            yield index, rows[index]
        begin = index + 1


def _with_headings(rows: Iterable[tuple[int | None, Row]], boxes: Sequence[int | None]) -> Iterator[Row]:
    current: int | None = None
    begun: set[int | None] = set()
    for index, row in rows:
        if index is not None and boxes[index] != current:
            current = boxes[index]
            yield Row("heading", row.above, current, is_return=current in begun)
            begun.add(current)
        yield row


def _numbered(rows: Sequence[Row]) -> list[Row]:
    """A number for each item with several rows, one of which shows it, from top to bottom."""
    counts = Counter(row.item for row in rows if row.kind in ("item", "reference"))
    shown = {row.item for row in rows if row.kind == "item"}
    numbers: dict[int | None, int] = {}
    numbered = []
    for row in rows:
        if row.kind in ("item", "reference") and row.item in shown and counts[row.item] > 1:
            row = replace(row, number=numbers.setdefault(row.item, len(numbers) + 1))
        numbered.append(row)
    return numbered
