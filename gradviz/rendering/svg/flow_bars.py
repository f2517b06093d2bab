"""The gradient that one backward gave to every parameter, as a chart of bars on a log scale, in the model's order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log10

from gradviz.analysis.flow.gradient_flow import FlowRow, GradientFlow, deepest_that_fits, folded, gradient_flow
from gradviz.capture.capture import Capture
from gradviz.graph.model import Graph
from gradviz.rendering.look.geometry import Point
from gradviz.rendering.look.node_label import SMALL_SIZE
from gradviz.rendering.look.palette import THEMES, Theme, ThemeName
from gradviz.rendering.look.shapes import number
from gradviz.rendering.look.text_metrics import shorten_middle, text_width
from gradviz.rendering.svg.document import svg_document
from gradviz.rendering.svg.png import fitting_scale, pixels
from gradviz.rendering.svg.style import ThemeChoice, style_sheet
from gradviz.rendering.svg.svg import Drawing
from gradviz.rendering.svg.xml_text import xml_text
from gradviz.rendering.words.common_words import counted, shape_words_of
from gradviz.rendering.words.run_log_words import size_words, trend_words
from gradviz.safe_text import one_line

MAX_ROWS = 60
"""With more parameters than this, they are folded into modules, unless a depth is given."""
_MARGIN = 24.0
_ROW = 18.0
_BAR = 11.0
_MAX_NAMES = 330.0
_BARS = 420.0
_FIGURES = 150.0
_PNG_SCALE = 2.0


@dataclass(frozen=True)
class FlowBarsRenderer:
    """Draws the gradient flow of one graph."""

    theme: ThemeChoice = "auto"
    depth: int | None = None
    show_all: bool = False

    def render(self, capture: Capture, graph: Graph) -> str:
        """An SVG file."""
        return self._draw(capture, graph, embed_font=True).markup

    def png(self, capture: Capture, graph: Graph) -> bytes:
        """The same as pixels, in the light theme unless the dark one is asked for."""
        name: ThemeName = "dark" if self.theme == "dark" else "light"
        drawing = replace(self, theme=name)._draw(capture, graph, embed_font=False)
        return pixels(drawing, fitting_scale(drawing, _PNG_SCALE), THEMES[name].page)

    def _draw(self, capture: Capture, graph: Graph, *, embed_font: bool) -> Drawing:
        flow = gradient_flow(capture, graph)
        depth = self.depth
        if depth is None and not self.show_all:
            depth = deepest_that_fits(flow.rows, MAX_ROWS)
        rows = list(flow.rows) if depth is None else folded(flow.rows, depth)
        chart = _Chart(rows, [*_facts(capture, graph, flow)], capture.title)
        style = style_sheet(self.theme, embed_font=embed_font, more=[_rules])
        content = f'<g class="f">{"".join(chart.markup())}</g>'
        markup = svg_document(one_line(chart.title), chart.width, chart.height, style, content)
        return Drawing(markup, chart.width, chart.height)


def _facts(capture: Capture, graph: Graph, flow: GradientFlow) -> Iterator[str]:
    call = "graph" if graph.backward is None else f"{graph.backward.function}() no. {graph.backward.number}"
    yield f"gradients of {call}: {counted(len(flow.rows), 'parameter')}; bars are L2 norms on a log scale"
    if flow.trend is not None:
        yield f"{flow.trend.verdict}: {trend_words(flow.trend)}"
    yield from (f"not recorded: {sentence}" for sentence in capture.disclosures)


def _rules(theme: Theme) -> Iterator[str]:
    yield f".bar{{fill:{theme.roles['parameter'].line}}}.bad{{fill:{theme.failed.line}}}"
    yield f".grid{{stroke:{theme.quiet_link};stroke-width:.6}}.f .bad{{fill:{theme.failed.line}}}"
    yield f".f text{{paint-order:stroke;stroke:{theme.page};stroke-width:4px;stroke-linejoin:round}}"
    yield f".f .zero{{fill:{theme.roles['inplace'].line}}}"


class _Chart:
    def __init__(self, rows: Sequence[FlowRow], facts: Sequence[str], title: str) -> None:
        self.title, self._rows, self._facts = title, rows, facts
        logs = [log10(row.norm) for row in rows if row.norm]
        self._low = floor(min(logs, default=0.0))
        self._high = max(ceil(max(logs, default=0.0)), self._low + 1)
        names = max((text_width(one_line(row.name), SMALL_SIZE) for row in rows), default=0.0)
        self._start = Point(_MARGIN + min(names, _MAX_NAMES) + 12, _MARGIN + 34 + 15 * len(facts))
        self.width = self._start.x + _BARS + _FIGURES + _MARGIN
        self.height = self._start.y + _ROW * len(rows) + _MARGIN

    def markup(self) -> Iterator[str]:
        """Title, scale, and a row for each parameter or module."""
        yield _text(self.title, _MARGIN, _MARGIN + 12, css_class="p")
        for line, words in enumerate(self._facts, 1):
            yield _text(shorten_middle(words, self.width - 2 * _MARGIN, SMALL_SIZE), _MARGIN, _MARGIN + 12 + 15 * line)
        decades = self._high - self._low
        step = max(1, ceil(decades / 8))
        for decade in range(self._low, self._high + 1, step):
            x = self._x(10.0**decade)
            yield f'<path class="grid" d="M{number(x)} {number(self._start.y - 4)}V{number(self.height - _MARGIN)}"/>'
            words = f"1e{decade}"
            yield _text(words, x - text_width(words, SMALL_SIZE) / 2, self._start.y - 8)
        for position, row in enumerate(self._rows):
            yield from self._row(row, self._start.y + position * _ROW)

    def _x(self, norm: float) -> float:
        return self._start.x + _BARS * (log10(norm) - self._low) / (self._high - self._low)

    def _row(self, row: FlowRow, y: float) -> Iterator[str]:
        base = y + _BAR + 2
        name = shorten_middle(one_line(row.name), _MAX_NAMES, SMALL_SIZE)
        yield _text(name, self._start.x - 12 - text_width(name, SMALL_SIZE), base, css_class="n")
        shape = counted(row.parameters, "tensor") if row.shape is None else shape_words_of(row.shape)
        if row.nans or row.infs:
            yield _text(f"{row.nans:,} NaN, {row.infs:,} Inf", self._start.x + 6, base, css_class="bad")
        elif row.norm:
            end = max(self._x(row.norm), self._start.x + 2)
            yield (
                f'<rect class="bar" x="{number(self._start.x)}" y="{number(y + 3)}" '
                f'width="{number(end - self._start.x)}" height="{number(_BAR)}" rx="2">'
                f"<title>{xml_text(one_line(f'{row.name} {shape}: {size_words(row.norm)}'))}</title></rect>"
            )
            yield _text(f"{size_words(row.norm)}  {shape}", end + 6, base)
        else:
            words = "all zero" if row.is_zero else f"no gradient: {row.nothing}" if row.nothing else "no gradient"
            yield _text(words, self._start.x + 6, base, css_class="zero")


def _text(words: str, x: float, y: float, *, css_class: str = "") -> str:
    attribute = f' class="{css_class}"' if css_class else ""
    return f'<text{attribute} x="{number(x)}" y="{number(y)}">{xml_text(one_line(words))}</text>\n'
