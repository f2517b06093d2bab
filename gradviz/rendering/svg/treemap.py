"""The memory of a graph as a treemap: nested rectangles whose areas are the bytes that are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

from gradviz.analysis.memory.kept_memory import GraphMemory
from gradviz.analysis.memory.memory_cells import Cell, cells_of
from gradviz.graph.model import Graph
from gradviz.graph.query.own_line import line_words_of
from gradviz.graph.words import byte_words
from gradviz.rendering.look.geometry import Rect
from gradviz.rendering.look.node_label import SMALL_SIZE, printable
from gradviz.rendering.look.shapes import number
from gradviz.rendering.look.text_metrics import shorten_middle, text_width
from gradviz.rendering.svg.style import ThemeChoice, shade, style_sheet
from gradviz.rendering.words.common_words import counted

_MARGIN = 16.0
_LINE = 15.0
_PADDING = 5.0
_MIN_SIDE = 3.0
"""What is narrower is not drawn by itself: the box around it stays empty there, and its tooltip counts it."""
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
        cell, place, depth = waiting.pop()
        if cell.kind == "box":
            has_title = bool(cell.name) and place.height > 2 * _LINE and place.width > _MIN_TEXT
            if depth:
                yield _open_box(cell, place, depth, has_title=has_title)
            inner = _inside(place, depth, has_title=has_title)
            boxes = _squares(cell.sorted_inside(), inner)
            waiting.extend((each, rect, depth + 1) for each, rect in reversed(boxes))
        else:
            yield _leaf(cell, place)


def _inside(place: Rect, depth: int, *, has_title: bool) -> Rect:
    if not depth:
        return place
    padding = min(_PADDING, place.width / 12, place.height / 12)
    top = _LINE + 4 if has_title else padding
    return Rect(place.x + padding, place.y + top, place.width - 2 * padding, place.height - top - padding)


def _squares(cells: list[Cell], room: Rect) -> list[tuple[Cell, Rect]]:
    """Rectangles for `cells`, the largest first, that fill `room` by their bytes."""
    from squarify import normalize_sizes, squarify

    if room.width < _MIN_SIDE or room.height < _MIN_SIDE:
        return []
    area, total = room.width * room.height, sum(cell.bytes for cell in cells)
    visible = [cell for cell in cells if cell.bytes * area >= total * _MIN_SIDE**2]
    left_out = total - sum(cell.bytes for cell in visible)
    sizes = [cell.bytes for cell in visible] + ([left_out] if left_out else [])
    rects = squarify(normalize_sizes(sizes, room.width, room.height), room.x, room.y, room.width, room.height)
    return [
        (cell, Rect(rect["x"], rect["y"], rect["dx"], rect["dy"])) for cell, rect in zip(visible, rects, strict=False)
    ]


def _open_box(cell: Cell, place: Rect, depth: int, *, has_title: bool) -> str:
    words = _title_line(cell, place) if has_title else ""
    box = f'<rect class="o {shade(depth - 1)}" {_rectangle(place)} rx="3"/>'
    return f'<g>{_tooltip(cell)}{box}<g class="h">{words}</g></g>\n'


def _title_line(cell: Cell, place: Rect) -> str:
    room = place.width - 2 * _PADDING
    name = shorten_middle(cell.title, room, SMALL_SIZE, bold=True)
    used = text_width(name, SMALL_SIZE, bold=True) + 8
    x, y = place.x + _PADDING, place.y + _LINE - 1
    title = f'<text x="{number(x)}" y="{number(y)}" font-weight="700">{escape(printable(name))}</text>'
    return title + _whole_text(byte_words(cell.bytes), x + used, y, room - used)


def _leaf(cell: Cell, place: Rect) -> str:
    role = "input" if cell.kind == "input" else "operation"
    x, room = place.x + _PADDING, place.width - 2 * _PADDING
    rows = max(int((place.height - 6) // _LINE), 0)
    title = cell.title if text_width(cell.title, SMALL_SIZE) <= room else cell.title.partition(".")[0]
    words = _text(title, x, place.y + _LINE, room) if rows and room > _MIN_TEXT else ""
    for row, line in enumerate([byte_words(cell.bytes), _place(cell)][: max(rows - 1, 0)], 2):
        words += _whole_text(line, x, place.y + _LINE * row, room)
    return f'<g class="{role}">{_tooltip(cell)}<rect class="s" {_rectangle(place)}/>{words}</g>\n'


def _text(words: str, x: float, y: float, room: float, css_class: str = "") -> str:
    shown = escape(printable(shorten_middle(words, room, 15 if css_class == "p" else SMALL_SIZE)))
    attribute = f' class="{css_class}"' if css_class else ""
    return f'<text{attribute} x="{number(x)}" y="{number(y)}">{shown}</text>'


def _whole_text(words: str, x: float, y: float, room: float) -> str:
    """Quiet words, or nothing: a figure that was cut says something else."""
    return _text(words, x, y, room, "q") if text_width(words, SMALL_SIZE) <= room else ""


def _tooltip(cell: Cell) -> str:
    storages = counted(cell.storages, "storage")
    words = ", ".join(filter(None, (cell.name, f"{byte_words(cell.bytes)} in {storages}", _place(cell))))
    return f"<title>{escape(printable(words))}</title>"


def _place(cell: Cell) -> str:
    return line_words_of(cell.file, cell.line) if cell.file and cell.line else ""


def _rectangle(place: Rect) -> str:
    return (
        f'x="{number(place.x + 0.5)}" y="{number(place.y + 0.5)}" '
        f'width="{number(max(place.width - 1, 0.5))}" height="{number(max(place.height - 1, 0.5))}"'
    )
