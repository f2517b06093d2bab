"""Lines of mathematics in SVG, with signs that the shipped font lacks: bars over letters, small circles, indices.

The font is small and the same for all pictures, so signs that only formulas need are drawn. The advance of every letter
is known, so a bar is exactly above its letter.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from gradviz.rendering.look.shapes import number
from gradviz.rendering.look.text_metrics import text_width
from gradviz.rendering.svg.xml_text import xml_text
from gradviz.safe_text import printable

_BAR, _HAT = "\N{COMBINING MACRON}", "\N{COMBINING CIRCUMFLEX ACCENT}"
_RING = "∘"
_SMALL = 0.72
"""Size of an index, relative to the size of the line."""
_LOW, _HIGH = 0.22, -0.32
"""Its distance below the baseline, relative to the size of the line."""
_INSTEAD = {"⟨": "<", "⟩": ">", "′": "'", "⌊": "[", "⌋": "]", "⌈": "[", "⌉": "]", "Π": "prod"}
"""Replacements for signs that are rare in formulas."""
_TALL = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZbdfhklt")


@dataclass(slots=True)
class _Run:
    """Letters side by side, of one size and height."""

    text: str
    x: float
    size: float
    rise: float = 0.0
    end: float = 0.0
    """The x of the next letter. A ring between two letters ends a run."""


def _taken_apart(character: str) -> tuple[str, str]:
    """``x`` and a bar for a letter with a bar or a hat; other accents are part of their letters."""
    parts = unicodedata.normalize("NFD", character)
    return (parts[0], parts[1]) if len(parts) == 2 and parts[1] in (_BAR, _HAT) else (character, "")


class FormulaLine:
    """One line of words with formulas in them."""

    def __init__(self, words: str, size: float) -> None:
        self._size = size
        self._runs: list[_Run] = []
        self._strokes: list[str] = []
        self.width = 0.0
        for character in printable(words):
            letter, accent = _taken_apart(character)
            self._add(letter)
            if accent:
                self._add(accent)

    def _add(self, character: str) -> None:
        if character in (_BAR, _HAT):
            self._strokes.append(self._above_last(character) if self._runs else "")
        elif character == _RING:
            self._strokes.append(self._ring())
            self.width += self._size * 0.4
        else:
            for sign in _INSTEAD.get(character, character):
                self._write(sign)

    def _write(self, sign: str) -> None:
        size, rise = self._size, 0.0
        how, _, plain = unicodedata.decomposition(sign).partition(" ")
        # A sign of several letters, such as the trademark sign, is not changed.
        if how in ("<sub>", "<super>") and " " not in plain:
            sign, size, rise = chr(int(plain, 16)), size * _SMALL, self._size * (_LOW if how == "<sub>" else _HIGH)
        last = self._runs[-1] if self._runs else None
        if last is not None and (last.size, last.rise, last.end) == (size, rise, self.width):
            last.text += sign
        else:
            self._runs.append(_Run(sign, self.width, size, rise))
        self.width += text_width(sign, size)
        self._runs[-1].end = self.width

    def _above_last(self, accent: str) -> str:
        """A bar or a hat over the letter before it."""
        run = self._runs[-1]
        width = text_width(run.text[-1], run.size)
        left = self.width - width
        y = run.rise - run.size * (0.8 if run.text[-1] in _TALL else 0.62)
        if accent == _BAR:
            return f"M{number(left + width * 0.12)} {number(y)}h{number(width * 0.76)}"
        half = width * 0.3
        return f"M{number(left + width / 2 - half)} {number(y + 1)}l{number(half)} -2.5l{number(half)} 2.5"

    def _ring(self) -> str:
        radius = self._size * 0.13
        left, y = self.width + self._size * 0.2 - radius, -self._size * 0.3
        r = number(radius)
        return (
            f"M{number(left)} {number(y)}a{r} {r} 0 1 0 {number(2 * radius)} 0a{r} {r} 0 1 0 -{number(2 * radius)} 0z"
        )

    def markup(self, x: float, y: float) -> str:
        """The line from `x` on, with its baseline at `y`."""
        strokes = f'<path class="fs" d="{"".join(self._strokes)}"/>' if self._strokes else ""
        return f'<g transform="translate({number(x)} {number(y)})"><text>{"".join(self._spans())}</text>{strokes}</g>\n'

    def _spans(self) -> Iterator[str]:
        for run in self._runs:
            style = f' style="font-size:{number(run.size)}px"' if run.size != self._size else ""
            yield f'<tspan x="{number(run.x)}" y="{number(run.rise)}"{style}>{xml_text(run.text)}</tspan>'
