"""The widths of the tree's columns, and its lines: text in styles, fitted to the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from gradviz.rendering.tree.cells import Cells
from gradviz.rendering.tree.columns import NARROWEST_OPERATION, OPERATION, Column

GAP = 2
_GUTTER = 2
QUIET = "dim"


class Span(NamedTuple):
    """A stretch of a line in one rich style, perhaps with a link."""

    text: str
    style: str = ""
    link: str | None = None


Line = list[Span]


class Table:
    """Lays out the cells of a tree in `width` columns of the terminal."""

    def __init__(self, cells: Sequence[Cells], columns: Sequence[Column], width: int, *, has_gutter: bool) -> None:
        self.cells = cells
        self._gutter = _GUTTER if has_gutter else 0
        self._width = width - self._gutter
        rows = [cell for cell in cells if cell.sign is not None and not cell.runs_over_columns]
        needs = [_Need(OPERATION, [cell.first for cell in rows], NARROWEST_OPERATION, 8)]
        for index, column in enumerate(columns):
            words = [cell.columns[index] if cell.columns else "" for cell in rows]
            needs.append(_Need(column.name, words, column.narrowest, column.weight))
        self._widths = _shared_out(needs, self._width)
        self._columns = columns
        self.without_room = [
            need.name for need, width in zip(needs, self._widths, strict=True) if need.width > width == 0
        ]
        """Names of the columns that do not fit."""

    def lines(self) -> Iterable[Line]:
        """The header, and a line for each row."""
        yield self.header()
        for cell in self.cells:
            yield self.line(cell)

    def header(self) -> Line:
        """The names of the columns."""
        first, *widths = self._widths
        words = [_padded(OPERATION, first)]
        for column, width in zip(self._columns, widths, strict=True):
            if width:
                words.append(_padded(column.name, width, to_the_right=column.is_number))
        return [Span(" " * self._gutter), Span((" " * GAP).join(words), "underline")]

    def line(self, cell: Cells) -> Line:
        """One row, in the widths that all of `cells` together need."""
        line = [Span(" " * self._gutter)]
        if self._gutter and cell.gutter is not None:
            line = [Span(set_cell_size(cell.gutter.character, self._gutter), cell.gutter.style)]
        lines = _without_outer(cell.lines, self._widths[0] // 2)
        line.append(Span(lines, QUIET))
        style = f"{cell.style} reverse" if cell.is_match else cell.style
        if cell.sign is None:
            return [*line, Span(_title(cell, self._width - len(lines)), style)]
        line.append(Span(f"{cell.sign.character} ", cell.style))
        if cell.runs_over_columns:
            return [*line, Span(_title(cell, self._width - len(lines) - 2), style)]
        width = max(self._widths[0] - len(lines) - 2, 1)
        title = _fitted(cell.title, width)
        line.append(Span(title, style))
        line.append(Span(" " * (width - cell_len(title))))
        for column, words, width in zip(self._columns, cell.columns, self._widths[1:], strict=False):
            if width:
                line.append(Span(" " * GAP))
                line += _cell(column, words, width, cell.link)
        return line


class _Need:
    """The width that a column needs: for all words, for nine in ten of them, and at least."""

    def __init__(self, name: str, words: Sequence[str], narrowest: int, weight: int) -> None:
        lengths = sorted(map(cell_len, words)) or [0]
        self.name, self.weight = name, weight
        is_empty = not lengths[-1] and name != OPERATION
        self.width = 0 if is_empty else max(lengths[-1], len(name))
        self.narrowest = min(self.width, narrowest)
        self.usual = min(self.width, max(lengths[len(lengths) * 9 // 10], narrowest))


def _shared_out(needs: Sequence[_Need], width: int) -> list[int]:
    """The width of each column. If the sum is too large, first the longest words are cut, then columns are left out."""
    widths = [need.width for need in needs]
    lightest_first = sorted(range(len(needs)), key=lambda index: needs[index].weight)

    def excess() -> int:
        return sum(widths) + GAP * (sum(map(bool, widths)) - 1) - width

    for floors in ([need.usual for need in needs], [need.narrowest for need in needs]):
        for index in lightest_first:
            widths[index] -= min(max(excess(), 0), max(widths[index] - floors[index], 0))
    for index in lightest_first:
        if excess() > 0 and index:
            widths[index] = 0
    widths[0] -= max(excess(), 0)
    # Columns that were left out may have freed more space than was missing.
    for index in reversed(lightest_first):
        if widths[index]:
            widths[index] += min(max(-excess(), 0), needs[index].width - widths[index])
    return widths


def _cell(column: Column, words: str, width: int, link: str | None) -> Line:
    if column.name != "line" or not link or not words:
        padded = _padded(words, width, to_the_right=column.is_number, keeps_end=column.keeps_end)
        return [Span(padded, column.styles.get(words, ""))]
    shown = _fitted(words, width, keeps_end=column.keeps_end)
    return [Span(shown, "", link), Span(" " * (width - cell_len(shown)))]


def _without_outer(lines: str, width: int) -> str:
    """Deep inside branches, the outermost lines are cut: the words matter more."""
    return lines if len(lines) <= width else "…" + lines[len(lines) - width + 1 :]


def _title(cell: Cells, width: int) -> str:
    titles = (cell.title, *cell.shorter_titles)
    return next((title for title in titles if cell_len(title) <= width), _fitted(titles[-1], width))


def _fitted(text: str, width: int, *, keeps_end: bool = False) -> str:
    if cell_len(text) <= width:
        return text
    if keeps_end:
        return "…" + set_cell_size(text[::-1], max(width - 1, 0))[::-1]
    return set_cell_size(text, max(width - 1, 0)) + "…"


def _padded(text: str, width: int, *, to_the_right: bool = False, keeps_end: bool = False) -> str:
    fitted = _fitted(text, width, keeps_end=keeps_end)
    padding = " " * (width - cell_len(fitted))
    return padding + fitted if to_the_right else fitted + padding
