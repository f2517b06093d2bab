"""The memory of a graph as a treemap: nested rectangles whose areas are the bytes kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

from gradviz.analysis.memory.kept_memory import GraphMemory
from gradviz.analysis.memory.memory_cells import Cell, cells_of
from gradviz.graph.model import Graph
from gradviz.graph.number_words import byte_words
from gradviz.graph.query.own_line import line_words_of
from gradviz.rendering.look.geometry import Rect
from gradviz.rendering.look.node_label import SMALL_SIZE
from gradviz.rendering.look.shapes import number
from gradviz.rendering.look.text_metrics import shorten_middle, text_width
from gradviz.rendering.svg.style import ThemeChoice, shade, style_sheet
from gradviz.rendering.words.common_words import counted
from gradviz.safe_text import printable

_MARGIN = 16.0
_LINE = 15.0
_PADDING = 5.0
_MIN_SIDE = 3.0
"""A narrower cell is not drawn: the box around it stays empty there, and its tooltip counts it."""
_MIN_TEXT = 34.0


@dataclass(frozen=True)
class TreemapRenderer:
    """Draws one graph; `width` and `height` are those of the map, in pixels."""

    theme: ThemeChoice = "auto"
    width: float = 1000.0
    height: float = 620.0

    def render(self, title: str, graph: Graph, memory: GraphMemory) -> str:
        """An SVG file."""
        left, top = _MARGIN, _MARGIN + 2.6 * _LINE
        total_width, total_height = self.width + 2 * _MARGIN, top + self.height + _MARGIN
        total = byte_words(memory.saved_bytes)
        colors = ", yellow is input" if memory.input_bytes else ""
        subtitle = f"{total} kept for backward; areas are bytes{colors}; parameters and buffers are left out"
        whole = cells_of(graph, memory)
        cells = "".join(_markup(whole, Rect(left, top, self.width, self.height))) if whole.bytes else ""
        size = f'width="{number(total_width)}" height="{number(total_height)}"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
            f'viewBox="0 0 {number(total_width)} {number(total_height)}" role="img">\n'
            f"<title>{escape(printable(title))}</title>\n"
            f"<style>{escape(style_sheet(self.theme, embed_font=True))}</style>\n"
            f'<rect class="page" {size}/>\n'
            f'<g class="f">{_text(title, left, _MARGIN + 13, self.width, "p")}'
            f"{_text(subtitle, left, _MARGIN + 13 + _LINE, self.width)}</g>\n"
            f"{cells}</svg>\n"
        )


def _markup(whole: Cell, box: Rect) -> Iterator[str]:
    """Outer cells before those inside them."""
    waiting = [(whole, box, 0)]
    while waiting:
        cell, area, depth = waiting.pop()
        if cell.kind == "box":
            has_title = bool(cell.name) and area.height > 2 * _LINE and area.width > _MIN_TEXT
            if depth:
                yield _open_box(cell, area, depth, has_title=has_title)
            inner = _inside(area, depth, has_title=has_title)
            boxes = _squares(cell.sorted_inside(), inner)
            waiting.extend((each, rect, depth + 1) for each, rect in reversed(boxes))
        else:
            yield _leaf(cell, area)


def _inside(area: Rect, depth: int, *, has_title: bool) -> Rect:
    if not depth:
        return area
    padding = min(_PADDING, area.width / 12, area.height / 12)
    top = _LINE + 4 if has_title else padding
    return Rect(area.x + padding, area.y + top, area.width - 2 * padding, area.height - top - padding)


def _squares(cells: list[Cell], area: Rect) -> list[tuple[Cell, Rect]]:
    """Rectangles for `cells`, the largest first, that fill `area` in proportion to their bytes."""
    from squarify import normalize_sizes, squarify

    if area.width < _MIN_SIDE or area.height < _MIN_SIDE:
        return []
    pixels, total = area.width * area.height, sum(cell.bytes for cell in cells)
    visible = [cell for cell in cells if cell.bytes * pixels >= total * _MIN_SIDE**2]
    left_out = total - sum(cell.bytes for cell in visible)
    sizes = [cell.bytes for cell in visible] + ([left_out] if left_out else [])
    rects = squarify(normalize_sizes(sizes, area.width, area.height), area.x, area.y, area.width, area.height)
    return [
        (cell, Rect(rect["x"], rect["y"], rect["dx"], rect["dy"])) for cell, rect in zip(visible, rects, strict=False)
    ]


def _open_box(cell: Cell, area: Rect, depth: int, *, has_title: bool) -> str:
    words = _title_line(cell, area) if has_title else ""
    box = f'<rect class="o {shade(depth - 1)}" {_rectangle(area)} rx="3"/>'
    return f'<g>{_tooltip(cell)}{box}<g class="h">{words}</g></g>\n'


def _title_line(cell: Cell, area: Rect) -> str:
    width = area.width - 2 * _PADDING
    name = shorten_middle(cell.title, width, SMALL_SIZE, bold=True)
    used = text_width(name, SMALL_SIZE, bold=True) + 8
    x, y = area.x + _PADDING, area.y + _LINE - 1
    title = f'<text x="{number(x)}" y="{number(y)}" font-weight="700">{escape(printable(name))}</text>'
    return title + _whole_text(byte_words(cell.bytes), x + used, y, width - used)


def _leaf(cell: Cell, area: Rect) -> str:
    role = "input" if cell.kind == "input" else "operation"
    x, width = area.x + _PADDING, area.width - 2 * _PADDING
    rows = max(int((area.height - 6) // _LINE), 0)
    title = cell.title if text_width(cell.title, SMALL_SIZE) <= width else cell.title.partition(".")[0]
    words = _text(title, x, area.y + _LINE, width) if rows and width > _MIN_TEXT else ""
    for row, line in enumerate([byte_words(cell.bytes), _location(cell)][: max(rows - 1, 0)], 2):
        words += _whole_text(line, x, area.y + _LINE * row, width)
    return f'<g class="{role}">{_tooltip(cell)}<rect class="s" {_rectangle(area)}/>{words}</g>\n'


def _text(words: str, x: float, y: float, width: float, css_class: str = "") -> str:
    shown = escape(printable(shorten_middle(words, width, 15 if css_class == "p" else SMALL_SIZE)))
    attribute = f' class="{css_class}"' if css_class else ""
    return f'<text{attribute} x="{number(x)}" y="{number(y)}">{shown}</text>'


def _whole_text(words: str, x: float, y: float, width: float) -> str:
    """Quiet words, or nothing if they do not fit: a figure without its end would be wrong."""
    return _text(words, x, y, width, "q") if text_width(words, SMALL_SIZE) <= width else ""


def _tooltip(cell: Cell) -> str:
    storages = counted(cell.storages, "storage")
    words = ", ".join(filter(None, (cell.name, f"{byte_words(cell.bytes)} in {storages}", _location(cell))))
    return f"<title>{escape(printable(words))}</title>"


def _location(cell: Cell) -> str:
    return line_words_of(cell.file, cell.line) if cell.file and cell.line else ""


def _rectangle(area: Rect) -> str:
    return (
        f'x="{number(area.x + 0.5)}" y="{number(area.y + 0.5)}" '
        f'width="{number(max(area.width - 1, 0.5))}" height="{number(max(area.height - 1, 0.5))}"'
    )
