"""Gradients over the steps of a run as one picture: a curve of the total norm, and a heat map of modules by steps.

Pale rows vanish, dark rows explode, red cells have NaN or Inf, and a flat line means that every element is zero.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import floor, isnan, log10

from gradviz.analysis.flow.flow_over_steps import FlowOverSteps, Series, depth_that_fits, flow_over_steps
from gradviz.capture.run_log import RunLog
from gradviz.rendering.look.geometry import Rect
from gradviz.rendering.look.node_label import SMALL_SIZE
from gradviz.rendering.look.shapes import number
from gradviz.rendering.look.text_metrics import shorten_middle, text_width, wrap
from gradviz.rendering.svg.document import svg_document
from gradviz.rendering.svg.heat_colours import LEVELS, chart_style
from gradviz.rendering.svg.heat_map import MIN_ZEROS, Columns, LogScale, cells, size_classes, typical, zero_classes
from gradviz.rendering.svg.style import ThemeChoice, style_sheet
from gradviz.rendering.svg.xml_text import xml_text
from gradviz.rendering.words.common_words import counted
from gradviz.rendering.words.run_log_words import findings, run_facts, run_title, size_words, what_is_missing
from gradviz.safe_text import printable

MAX_ROWS = 48
"""With more parameters than this, they are folded into modules, unless a depth is given."""
_MARGIN = 20.0
_LINE = 15.0
_NAMES = 210.0
_GAP = 22.0
_CURVE_HEIGHT = 84.0
_ZEROS_SHARE = 0.3
_TITLE_SIZE = 15.0


@dataclass(frozen=True)
class FlowChartRenderer:
    """Draws a run log; `width` is the width of the picture, in pixels."""

    theme: ThemeChoice = "auto"
    depth: int | None = None
    show_all: bool = False
    width: float = 1080.0

    def render(self, log: RunLog) -> str:
        """An SVG file."""
        depth = self.depth
        if depth is None and not self.show_all:
            depth = depth_that_fits(log, MAX_ROWS)
        return _Chart(self, log, flow_over_steps(log, depth)).svg()


class _Chart:
    """One picture, drawn from top to bottom."""

    def __init__(self, look: FlowChartRenderer, log: RunLog, flow: FlowOverSteps) -> None:
        self._look, self._log, self._flow = look, log, flow
        self._columns = Columns.of(len(flow.steps))
        self._scale = LogScale.of([size for each in flow.series for size in each.sizes if size > 0])
        self._has_zeros = any(share >= MIN_ZEROS for each in flow.series for share in each.zeros)
        self._row_height = 22.0 if len(flow.series) <= 12 else 17.0 if len(flow.series) <= 30 else 13.0

    def svg(self) -> str:
        header, top = self._header()
        left, width = _MARGIN + _NAMES, self._look.width - 2 * _MARGIN - _NAMES
        sizes_width = width * (1 - _ZEROS_SHARE) - _GAP if self._has_zeros else width
        curve = Rect(left, top + _LINE, sizes_width, _CURVE_HEIGHT)
        rows_height = self._row_height * len(self._flow.series)
        sizes = Rect(left, curve.bottom + 2.4 * _LINE, sizes_width, rows_height)
        zeros = Rect(sizes.right + _GAP, sizes.y, width - sizes_width - _GAP, rows_height)
        below = sizes.bottom + 2.6 * _LINE
        body = [*self._curve(curve), *self._map(sizes)]
        if self._has_zeros:
            body += self._zeros(zeros)
        body += self._legend(below, zeros if self._has_zeros else None)
        return self._document("".join([*header, *body]), below + 2.6 * _LINE + _MARGIN)

    def _document(self, body: str, height: float) -> str:
        style = style_sheet(self._look.theme, embed_font=True) + chart_style(self._look.theme)
        title = printable(run_title(self._log))
        return svg_document(title, self._look.width, height, style, f'<g class="f">{body}</g>')

    def _header(self) -> tuple[list[str], float]:
        """Markup of the title and the sentences below it, and the y at which the picture begins."""
        width, y = self._look.width - 2 * _MARGIN, _MARGIN + 12
        title = run_title(self._log)
        lines = [_text(title[0].upper() + title[1:], _MARGIN, y, "p", size=_TITLE_SIZE, width=width)]
        said = [("e", sentence) for sentence in findings(self._log, self._flow)]
        said.append(("", f"{run_facts(self._log)}; rows in the order of the model, the input above and the loss below"))
        said += [("e", sentence) for sentence in what_is_missing(self._log)]
        for css_class, sentence in said:
            for line in wrap(printable(sentence), width, SMALL_SIZE):
                y += _LINE
                lines.append(_text(line, _MARGIN, y, css_class, width=width))
        return lines, y + _LINE

    # -- the curve of the total norm --------------------------------------------------------------------------------

    def _curve(self, area: Rect) -> Iterator[str]:
        total = [typical(self._flow.total[span]) for span in self._columns.spans()]
        scale = LogScale.of(total)
        yield _text("norm of all gradients", _MARGIN, area.y + 10, "n", width=_NAMES - 50)
        yield _text("log scale", _MARGIN, area.y + 10 + _LINE, width=_NAMES - 50)
        step = -(-(scale.high - scale.low) // 4)
        for decade in range(scale.low, scale.high + 1, step):
            y = area.bottom - (decade - scale.low) / (scale.high - scale.low) * area.height
            yield f'<path class="g" d="M{number(area.x)} {number(y)}H{number(area.right)}"/>'
            yield _text(f"1e{decade}", area.x - 6, y + 3.5, anchor="end")
        broken = [any(any(each.broken[span]) for each in self._flow.series) for span in self._columns.spans()]
        yield from ('<g class="faint">', *cells([["bad" if each else "" for each in broken]], area), "</g>")
        yield f'<path class="u" d="{_polyline(total, scale, area)}"/>\n'

    # -- the heat maps -------------------------------------------------------------------------------------------

    def _map(self, area: Rect) -> Iterator[str]:
        yield _text("size of the gradient (root mean square of its elements)", area.x, area.y - 6, "n")
        yield f'<rect class="bed" {_rectangle(area)}/>'
        yield from cells([size_classes(each, self._columns, self._scale) for each in self._flow.series], area)
        size = min(SMALL_SIZE, self._row_height - 2.5)
        for row, each in enumerate(self._flow.series):
            y = area.y + (row + 0.5) * self._row_height + size * 0.34
            yield _text(each.name, area.x - 8, y, "n", size=size, width=_NAMES - 12, anchor="end")
        yield from self._steps_below(area)
        yield from self._tooltips(area)

    def _zeros(self, area: Rect) -> Iterator[str]:
        yield _text("zeros in the gradient", area.x, area.y - 6, "n")
        yield f'<rect class="bed" {_rectangle(area)}/>'
        yield from cells([zero_classes(each, self._columns) for each in self._flow.series], area)
        yield from self._steps_below(area)
        yield from self._tooltips(area)

    def _steps_below(self, area: Rect) -> Iterator[str]:
        """As many round step numbers as fit."""
        steps = self._flow.steps
        width = text_width(f"{steps[-1]:,}", SMALL_SIZE) * 1.6 + 14
        first_end = area.x + text_width(f"step {steps[0]:,}", SMALL_SIZE) + 8
        yield _text(f"step {steps[0]:,}", area.x, area.bottom + 15)
        for at, step in _round_steps(steps, int(area.width // width)):
            word = f"{step:,}"
            x = area.x + (at + 0.5) / len(steps) * area.width
            half = text_width(word, SMALL_SIZE) / 2
            yield f'<path class="g" d="M{number(x)} {number(area.bottom)}v4"/>'
            if x - half > first_end:
                yield _text(word, min(x, area.right - half), area.bottom + 15, anchor="middle")

    def _tooltips(self, area: Rect) -> Iterator[str]:
        for row, each in enumerate(self._flow.series):
            box = Rect(area.x, area.y + row * self._row_height, area.width, self._row_height)
            words = xml_text(_series_words(each, self._flow.steps))
            yield f'<rect class="hit" {_rectangle(box)}><title>{words}</title></rect>\n'

    # -- the legend ----------------------------------------------------------------------------------------------

    def _legend(self, y: float, zeros: Rect | None) -> Iterator[str]:
        x, width = _MARGIN + _NAMES, 240.0
        yield from _ramp("s", Rect(x, y, width, 10))
        for anchor, decade, at in (("start", self._scale.low, x), ("end", self._scale.high, x + width)):
            yield _text(f"1e{decade}", at, y + 23, anchor=anchor)
        signs = [("bad", "NaN or Inf")] if any(any(each.broken) for each in self._flow.series) else []
        if any(0.0 in each.sizes for each in self._flow.series):
            signs.append(("dead", "all zero"))
        if any(any(map(isnan, each.norms)) for each in self._flow.series):
            signs.append(("bed", "no gradient"))
        x += width + 20
        for css_class, words in signs:
            if css_class == "dead":
                yield f'<path class="dead" d="M{number(x)} {number(y + 5)}h16"/>'
            else:
                yield f'<rect class="{css_class}" x="{number(x)}" y="{number(y)}" width="16" height="10"/>'
            yield _text(words, x + 22, y + 9)
            x += 22 + text_width(words, SMALL_SIZE) + 16
        if zeros is not None:
            yield from _ramp("z", Rect(zeros.x, y, zeros.width, 10))
            yield _text("1 %", zeros.x, y + 23)
            yield _text("100 %", zeros.right, y + 23, anchor="end")


def _round_steps(steps: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """The indices of round numbers among the steps, with these numbers."""
    least = (steps[-1] - steps[0]) / max(most, 1)
    power = 10 ** max(floor(log10(least)), 0) if least > 0 else 1
    interval = next(power * times for times in (1, 2, 5, 10) if power * times >= least)
    for step in range(steps[0] // interval * interval + interval, steps[-1] + 1, interval):
        at = bisect_left(steps, step)
        if steps[at] == step:
            yield at, step


def _ramp(letter: str, area: Rect) -> Iterator[str]:
    width = area.width / LEVELS
    for level in range(LEVELS):
        box = Rect(area.x + level * width, area.y, width + (0.5 if level < LEVELS - 1 else 0), area.height)
        yield f'<rect class="{letter}{level}" {_rectangle(box)}/>'


def _polyline(values: Sequence[float], scale: LogScale, area: Rect) -> str:
    """Path data; an unknown value or a zero interrupts the line."""
    commands, is_drawing = [], False
    for column, value in enumerate(values):
        if isnan(value) or value <= 0:
            is_drawing = False
            continue
        x = area.x + (column + 0.5) / len(values) * area.width
        y = area.bottom - scale.part(value) * area.height
        commands.append(f"{'L' if is_drawing else 'M'}{number(x)} {number(y)}")
        if not is_drawing:
            commands.append("h.1")  # a single value is a dot
        is_drawing = True
    return "".join(commands)


def _series_words(series: Series, steps: Sequence[int]) -> str:
    known = [area for area, size in enumerate(series.sizes) if not isnan(size)]
    what = series.name if series.parameters == 1 else f"{series.name} ({counted(series.parameters, 'parameter')})"
    if not known:
        return f"{what}: no finite gradient"
    ends = [known[0], known[-1]] if len(known) > 1 else known[:1]
    figures = [
        f"step {steps[area]:,}: size {size_words(series.sizes[area])}, norm {size_words(series.norms[area])}, "
        f"{series.zeros[area]:.1%} zeros"
        for area in ends
    ]
    return "\n".join([what, *figures])


def _text(
    words: str,
    x: float,
    y: float,
    css_class: str = "",
    *,
    size: float = SMALL_SIZE,
    width: float = 1e9,
    anchor: str = "start",
) -> str:
    shown = xml_text(shorten_middle(words, width, size))
    attributes = f' class="{css_class}"' if css_class else ""
    if anchor != "start":
        attributes += f' text-anchor="{anchor}"'
    if size not in (SMALL_SIZE, _TITLE_SIZE):
        attributes += f' style="font-size:{number(size)}px"'
    return f'<text{attributes} x="{number(x)}" y="{number(y)}">{shown}</text>'


def _rectangle(area: Rect) -> str:
    return f'x="{number(area.x)}" y="{number(area.y)}" width="{number(area.width)}" height="{number(area.height)}"'
