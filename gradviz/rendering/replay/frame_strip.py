"""Frames of a replay on pages: all in one picture, in rows, or each in its own picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, sqrt
from xml.sax.saxutils import escape

from gradviz.analysis.replay.steps import State
from gradviz.errors import BadInput, check_choice
from gradviz.rendering.look.color_ramps import Ink
from gradviz.rendering.look.geometry import Direction
from gradviz.rendering.look.node_label import SMALL_SIZE
from gradviz.rendering.look.palette import DARK, Theme
from gradviz.rendering.look.shapes import number
from gradviz.rendering.look.text_metrics import text_width, wrap
from gradviz.rendering.replay.frames import ReplayFrames
from gradviz.rendering.replay.step_words import ReplayWords
from gradviz.rendering.svg.frame import call_facts
from gradviz.rendering.svg.links import arrowhead, arrowheads
from gradviz.rendering.svg.style import ThemeChoice, style_sheet
from gradviz.rendering.svg.svg import Drawing
from gradviz.rendering.svg.xml_text import xml_text
from gradviz.safe_text import one_line

MAX_FRAMES = 60
"""In one picture; a larger one helps nobody."""
_WIDTH = 1300.0
_MARGIN = 24.0
_GAP = 36.0
_LINE = 15.0
_CAPTION = 60.0
"""About the height of the words below a frame."""
_MAX_RATIO = 2.0
"""Of the height of a page to its width."""
_PAGE_SIDE = 7_500.0
"""A page of this size is a PNG that viewers show, at two pixels for each of its own."""
_HEADS = (("carries", 9), ("carried", 7))
"""Arrowheads of wires with a gradient, with their sizes."""


@dataclass(frozen=True)
class StripLook:
    """The appearance of the pictures."""

    direction: Direction = "TB"
    theme: ThemeChoice = "auto"
    embed_font: bool = True

    def __post_init__(self) -> None:
        check_choice("direction", self.direction, ("TB", "LR"))
        check_choice("theme", self.theme, ("auto", "light", "dark"))


class ReplayStrip:
    """The frames of some steps of one replay, ready to be put on pages."""

    def __init__(self, words: ReplayWords, look: StripLook, steps: range, notes: tuple[str, ...] = ()) -> None:
        self._words, self._look, self._steps = words, look, steps
        self._frames = ReplayFrames(words, look.direction, steps)
        self._notes = (*notes, *self._frames.notes)

    def whole(self) -> Drawing:
        """All frames in one picture; raises `BadInput` if there are too many."""
        if len(self._steps) > MAX_FRAMES:
            raise BadInput(
                f"{len(self._steps):,} steps are too many for one picture, which shows up to {MAX_FRAMES}",
                hint="--from and --to draw a part, --depth folds more, and -o FOLDER/ makes a file for each",
            )
        return self._page(self._steps)

    def pages(self) -> Iterator[Drawing]:
        """All frames on as few pages as PNG viewers can show in full size."""
        width, height = (each + _GAP for each in (self._frames.width, self._frames.picture_height + _CAPTION))
        most = max(1, int(_PAGE_SIDE // width)) * max(1, int(_PAGE_SIDE // height))
        count = ceil(len(self._steps) / min(most, MAX_FRAMES))
        each = ceil(len(self._steps) / count)
        for start in range(0, len(self._steps), each):
            yield self._page(self._steps[start : start + each])

    def single(self, at: int) -> Drawing:
        """A picture of one frame."""
        return self._page(range(at, at + 1))

    def _page(self, steps: range) -> Drawing:
        frames = self._frames
        columns = max(1, min(len(steps), int((_WIDTH + _GAP) // (frames.width + _GAP))))
        # More columns than fit this width where the page would be more than twice as tall as wide.
        tall, wide = frames.picture_height + _CAPTION + _GAP, frames.width + _GAP
        columns = max(columns, min(len(steps), ceil(sqrt(len(steps) * tall / wide / _MAX_RATIO))))
        columns = ceil(len(steps) / ceil(len(steps) / columns))  # So that the last row is not nearly empty.
        inner = max(columns * (frames.width + _GAP) - _GAP, text_width(_legend_words(), SMALL_SIZE) + 130)
        title, y = self._title(inner)
        positioned = []
        for first in range(0, len(steps), columns):
            row = steps[first : first + columns]
            for column, at in enumerate(row):
                x = _MARGIN + column * (frames.width + _GAP)
                positioned.append(f'<g transform="translate({number(x)} {number(y)})">\n{frames.frame(at)}</g>\n')
            # Pages of one frame have the same height, so that a viewer can step through them.
            words = self._steps if len(steps) == 1 else row
            y += frames.picture_height + max(map(frames.caption_height, words)) + _GAP
        footer, bottom = self._footer(y, inner)
        return Drawing(
            self._document("".join((title, *positioned, footer)), inner, bottom), inner + 2 * _MARGIN, bottom
        )

    def _document(self, body: str, inner: float, height: float) -> str:
        width, tall = number(inner + 2 * _MARGIN), number(height)
        style = style_sheet(self._look.theme, embed_font=self._look.embed_font, more=(replay_rules,))
        heads = arrowheads(()) + "".join(arrowhead(f"g-{state}", f"g-{state}", size) for state, size in _HEADS)
        name = xml_text(f"backward of {self._words.subject.capture.title}, step by step")
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{tall}" viewBox="0 0 {width} {tall}" '
            f'role="img">\n<title>{name}</title>\n<style>{escape(style)}</style>\n'
            f"<defs>{heads}</defs>\n"
            f'<rect class="page" width="{width}" height="{tall}"/>\n{body}</svg>\n'
        )

    def _title(self, inner: float) -> tuple[str, float]:
        subject, y = self._words.subject, _MARGIN + 15
        parts = [f'<text class="p" x="{number(_MARGIN)}" y="{number(y)}">'
                 f"{xml_text(one_line(subject.capture.title))}</text>\n"]  # fmt: skip
        for line in wrap(f"{call_facts(subject)} · {len(self._words.replay):,} steps", inner, SMALL_SIZE):
            y += _LINE
            parts.append(_text(line, y))
        return f'<g class="f">{"".join(parts)}</g>\n', y + _MARGIN

    def _footer(self, y: float, inner: float) -> tuple[str, float]:
        parts = list(_legend(y))
        y += 14
        for note in self._notes:
            for line in wrap(one_line(note), inner, SMALL_SIZE):
                y += _LINE
                parts.append(_text(line, y))
        return f'<g class="f">{"".join(parts)}</g>\n', y + _MARGIN


def _text(words: str, y: float, x: float = _MARGIN) -> str:
    return f'<text x="{number(x)}" y="{number(y)}">{xml_text(words)}</text>\n'


_STATES: tuple[tuple[State, str], ...] = (
    ("runs", "runs"),
    ("ready", "ready to run"),
    ("waits", "waits for more gradient"),
    ("ran", "has run"),
)


def _legend_words() -> str:
    return "  ".join(words for _, words in _STATES)


def _legend(y: float) -> Iterator[str]:
    x = _MARGIN
    for state, words in _STATES:
        yield (
            f'<g class="is-{state}"><g class="operation"><rect class="s" x="{number(x)}" y="{number(y - 10)}" '
            f'width="20" height="13" rx="4"/></g></g>'
        )
        yield _text(words, y, x + 26)
        x += 26 + text_width(words, SMALL_SIZE) + 20


@dataclass(frozen=True)
class _Inks:
    """The colours of a replay in one theme."""

    runs: Ink
    line: str
    """Of nodes that wait, and of the wires that carry the gradient now."""
    ran: str
    """Of nodes that have run, and of wires that have carried it."""
    ran_fill: str


_LIGHT_INKS = _Inks(Ink("#fde4d3", "#c2410c", "#5c1f04"), "#c2410c", "#d99a78", "#fdf6f1")
_DARK_INKS = _Inks(Ink("#5a2a10", "#fb923c", "#ffe8d9"), "#fb923c", "#9a6238", "#2b2320")


def replay_rules(theme: Theme) -> Iterator[str]:
    """Rules for states of items, wires with a gradient, and step numbers. They come after those of roles."""
    inks = _DARK_INKS if theme is DARK else _LIGHT_INKS
    yield f".is-runs .s{{fill:{inks.runs.fill};stroke:{inks.line};stroke-width:2.6}}.is-runs .i{{stroke:{inks.line}}}"
    yield f".is-runs text,.is-runs .q{{fill:{inks.runs.text}}}"
    yield f".is-ready .s{{stroke:{inks.line};stroke-width:2}}"
    yield f".is-waits .s{{stroke:{inks.line};stroke-width:1.6;stroke-dasharray:3 3}}"
    yield f".is-ran .s{{stroke:{inks.ran}}}.is-ran .operation .s,.is-ran .view .s{{fill:{inks.ran_fill}}}"
    yield f".l .carries{{stroke:{inks.line};stroke-width:2.4}}.g-carries{{fill:{inks.line}}}"
    yield f".l .carried{{stroke:{inks.ran}}}.g-carried{{fill:{inks.ran}}}"
    yield f".y .gl text{{fill:{inks.line}}}"
    yield f".fs{{fill:none;stroke:{theme.quiet_text};stroke-width:.8}}"
    yield f".nc{{fill:{inks.line}}}.f .nt{{fill:{theme.page};font-weight:700}}"
