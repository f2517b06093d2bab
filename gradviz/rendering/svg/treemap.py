"""The memory of a graph as a treemap: nested rectangles whose areas are the bytes kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gradviz.analysis.memory.kept_memory import GraphMemory
from gradviz.analysis.memory.memory_cells import Cell, cells_of
from gradviz.graph.model import Graph
from gradviz.graph.number_words import byte_words
from gradviz.graph.query.operation_kinds import kind_of_operation
from gradviz.graph.query.own_line import line_words_of
from gradviz.rendering.look.color_by import KIND_CATEGORIES, ink_of
from gradviz.rendering.look.color_ramps import COLOURED_KINDS
from gradviz.rendering.look.geometry import Rect
from gradviz.rendering.look.node_label import SMALL_SIZE
from gradviz.rendering.look.palette import THEMES, Theme, ThemeName
from gradviz.rendering.look.shapes import number
from gradviz.rendering.look.text_metrics import shorten_middle, text_width
from gradviz.rendering.svg.document import svg_document
from gradviz.rendering.svg.png import pixels
from gradviz.rendering.svg.style import ThemeChoice, shade, style_sheet, tint_rule
from gradviz.rendering.svg.svg import Drawing
from gradviz.rendering.svg.xml_text import xml_text
from gradviz.rendering.words.common_words import counted
from gradviz.safe_text import one_line

_MARGIN = 16.0
_LINE = 15.0
_PADDING = 5.0
_MIN_SIDE = 3.0
"""A narrower cell is not drawn: the box around it stays empty there, and its tooltip counts it."""
_MIN_TEXT = 34.0
MAX_LISTED = 60
"""Cells without words that are listed below the map."""
_LIST_COLUMNS = 3
_PNG_SCALE = 2.0


@dataclass(frozen=True)
class TreemapRenderer:
    """Draws one graph; `width` and `height` are those of the map, in pixels."""

    theme: ThemeChoice = "auto"
    width: float = 1000.0
    height: float = 620.0

    def render(self, title: str, graph: Graph, memory: GraphMemory) -> str:
        """An SVG file."""
        return self._draw(title, graph, memory, embed_font=True).markup

    def png(self, title: str, graph: Graph, memory: GraphMemory) -> bytes:
        """The same as pixels, in the light theme unless the dark one is asked for."""
        name: ThemeName = "dark" if self.theme == "dark" else "light"
        drawing = replace(self, theme=name)._draw(title, graph, memory, embed_font=False)
        return pixels(drawing, _PNG_SCALE, THEMES[name].page)

    def _draw(self, title: str, graph: Graph, memory: GraphMemory, *, embed_font: bool) -> Drawing:
        left, top = _MARGIN, _MARGIN + 2.6 * _LINE
        total = byte_words(memory.saved_bytes)
        subtitle = f"{total} kept for backward; areas are bytes; parameters and buffers are left out"
        whole, cells = cells_of(graph, memory), _Cells(graph)
        markup = "".join(cells.markup(whole, Rect(left, top, self.width, self.height))) if whole.bytes else ""
        bottom = top + (self.height if whole.bytes else 0)
        below, bottom = _below(cells, Rect(left, bottom, self.width, 0))
        width, height = self.width + 2 * _MARGIN, bottom + _MARGIN
        style = style_sheet(self.theme, embed_font=embed_font, more=[_kind_rules])
        content = (
            f'<g class="f">{_text(title, left, _MARGIN + 13, self.width, "p")}'
            f"{_text(subtitle, left, _MARGIN + 13 + _LINE, self.width)}</g>\n{markup}{below}"
        )
        return Drawing(svg_document(one_line(title), width, height, style, content), width, height)


def _kind_rules(theme: Theme) -> Iterator[str]:
    for tint, _ in KIND_CATEGORIES:
        yield tint_rule(tint, ink_of(tint, "kind", theme))
    # Not in the colour of inputs elsewhere, which is close to that of a kind.
    ink = theme.roles["constant"]
    yield f".input .s{{fill:{ink.fill};stroke:{ink.line};stroke-dasharray:4 3}}.input text{{fill:{ink.text}}}"


class _Cells:
    """Draws the cells, and keeps account of those without words."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.tints: set[str] = set()
        """Those that appear, and ``input``."""
        self._small: list[tuple[Cell, Rect | None]] = []
        """Cells that are too small for their words, with their areas if they are drawn at all."""

    def markup(self, whole: Cell, box: Rect) -> Iterator[str]:
        """Outer cells before those inside them."""
        waiting = [(whole, box, 0)]
        while waiting:
            cell, area, depth = waiting.pop()
            if cell.kind != "box":
                yield self._leaf(cell, area)
                continue
            has_title = bool(cell.name) and area.height > 2 * _LINE and area.width > _MIN_TEXT
            if depth:
                yield _open_box(cell, area, depth, has_title=has_title)
            inner = _inside(area, depth, has_title=has_title)
            boxes = _squares(cell.sorted_inside(), inner)
            drawn = {id(each) for each, _ in boxes}
            self._small += [(leaf, None) for leaf in _leaves_of(each for each in cell.inside if id(each) not in drawn)]
            waiting.extend((each, rect, depth + 1) for each, rect in reversed(boxes))
        for position, (_, place) in enumerate(self._listed(), 1):
            if place is not None and position <= MAX_LISTED:
                yield _number_in(place, position)

    def _listed(self) -> list[tuple[Cell, Rect | None]]:
        return sorted(self._small, key=lambda small: -small[0].bytes)

    @property
    def listed(self) -> list[Cell]:
        """The cells without words, the largest first; each has its number in this list, if that fits."""
        return [cell for cell, _ in self._listed()]

    def _leaf(self, cell: Cell, area: Rect) -> str:
        tint = "" if cell.kind == "input" else next(iter(self._tint(cell)), "")
        self.tints.add("input" if cell.kind == "input" else tint)
        x, width = area.x + _PADDING, area.width - 2 * _PADDING
        rows = max(int((area.height - 6) // _LINE), 0)
        titles = (cell.title, cell.title.partition(".")[0])
        title = next((each for each in titles if text_width(each, SMALL_SIZE) <= width), "")
        if rows and title:
            words = _text(title, x, area.y + _LINE, width)
            for row, line in enumerate([byte_words(cell.bytes), _location(cell)][: max(rows - 1, 0)], 2):
                words += _whole_text(line, x, area.y + _LINE * row, width)
        else:
            self._small.append((cell, area))
            words = ""
        role = " ".join(filter(None, ("input" if cell.kind == "input" else "operation", tint)))
        return f'<g class="{role}">{_tooltip(cell)}<rect class="s" {_rectangle(area)}/>{words}</g>\n'

    def _tint(self, cell: Cell) -> Iterator[str]:
        kind = kind_of_operation(self._graph.nodes[cell.nodes[0]]) if cell.nodes else None
        if kind in COLOURED_KINDS:
            yield f"category{COLOURED_KINDS.index(kind)}"


def _leaves_of(cells: Iterable[Cell]) -> Iterator[Cell]:
    waiting = list(cells)
    while waiting:
        cell = waiting.pop()
        if cell.kind == "box":
            waiting.extend(cell.inside)
        else:
            yield cell


def _number_in(area: Rect, position: int) -> str:
    words = str(position)
    if text_width(words, SMALL_SIZE) + 2 > area.width or area.height < SMALL_SIZE + 1:
        return ""
    x = area.center.x - text_width(words, SMALL_SIZE) / 2
    return f'<g class="f">{_text(words, x, area.center.y + SMALL_SIZE / 3, area.width, "n")}</g>\n'


def _below(cells: _Cells, area: Rect) -> tuple[str, float]:
    """What the colours mean, and the list of the cells without words; with its lower end."""
    y = area.y + _LINE + 4
    parts, x = [], area.x
    legend = [(tint, words) for tint, words in (*KIND_CATEGORIES, ("input", "input")) if tint in cells.tints]
    for tint, words in legend:
        role = "" if tint == "input" else "operation "
        swatch = f'<rect class="s" x="{number(x)}" y="{number(y - 9)}" width="16" height="11"/>'
        parts.append(f'<g class="{role}{tint}">{swatch}</g><g class="f">{_text(words, x + 22, y, 300)}</g>\n')
        x += 22 + text_width(words, SMALL_SIZE) + 18
    y += 1.5 * _LINE if legend else -_LINE
    width = area.width / _LIST_COLUMNS
    shown = cells.listed[:MAX_LISTED]
    rows = -(-len(shown) // _LIST_COLUMNS)
    for position, cell in enumerate(shown):
        left, line = area.x + position // rows * width, y + position % rows * _LINE
        words = " · ".join(filter(None, (byte_words(cell.bytes), _location(cell))))
        used = text_width(f" · {words}", SMALL_SIZE)
        start = f"{position + 1}  "
        name = shorten_middle(cell.title, width - 12 - used - text_width(start, SMALL_SIZE), SMALL_SIZE)
        parts.append(f'<g class="f">{_text(f"{start}{name} · {words}", left, line, width)}</g>\n')
    y += rows * _LINE
    others = cells.listed[MAX_LISTED:]
    if others:
        words = f"and {len(others):,} smaller cells with {byte_words(sum(cell.bytes for cell in others))} together"
        parts.append(f'<g class="f">{_text(words, area.x, y, area.width)}</g>\n')
        y += _LINE
    return "".join(parts), y


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
    title = f'<text x="{number(x)}" y="{number(y)}" font-weight="700">{xml_text(name)}</text>'
    return title + _whole_text(byte_words(cell.bytes), x + used, y, width - used)


def _text(words: str, x: float, y: float, width: float, css_class: str = "") -> str:
    shown = xml_text(shorten_middle(words, width, 15 if css_class == "p" else SMALL_SIZE))
    attribute = f' class="{css_class}"' if css_class else ""
    return f'<text{attribute} x="{number(x)}" y="{number(y)}">{shown}</text>'


def _whole_text(words: str, x: float, y: float, width: float) -> str:
    """Quiet words, or nothing if they do not fit: a figure without its end would be wrong."""
    return _text(words, x, y, width, "q") if text_width(words, SMALL_SIZE) <= width else ""


def _tooltip(cell: Cell) -> str:
    storages = counted(cell.storages, "storage")
    words = ", ".join(filter(None, (cell.name, f"{byte_words(cell.bytes)} in {storages}", _location(cell))))
    return f"<title>{xml_text(words)}</title>"


def _location(cell: Cell) -> str:
    return line_words_of(cell.file, cell.line) if cell.file and cell.line else ""


def _rectangle(area: Rect) -> str:
    return (
        f'x="{number(area.x + 0.5)}" y="{number(area.y + 0.5)}" '
        f'width="{number(max(area.width - 1, 0.5))}" height="{number(max(area.height - 1, 0.5))}"'
    )
