"""The width of a text in the shipped font, and how a text that is too wide is shortened.

Boxes are sized from the font's advance widths, so a text never leaves its box, on any machine: the SVG embeds the same
font, and the PNG is drawn with it.
"""

from __future__ import annotations

import json
from functools import cache, lru_cache
from pathlib import Path

FONT_FAMILY = "Gradviz Sans"
FONT_FOLDER = Path(__file__).parent / "fonts"
ELLIPSIS = "…"

# The user's system draws characters that are not in the font in another one. One em is enough for nearly all of them.
UNKNOWN_ADVANCE = 1000


@cache
def _advances(bold: bool) -> dict[str, int]:
    """Advance of each character in thousandths of an em."""
    tables = json.loads((FONT_FOLDER / "widths.json").read_text(encoding="ascii"))
    table: dict[str, int] = tables["bold" if bold else "regular"]
    return table


@lru_cache(maxsize=65536)
def _ems(text: str, bold: bool) -> int:
    advances = _advances(bold)
    return sum(advances.get(character, UNKNOWN_ADVANCE) for character in text)


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Width of one line of `text` in pixels, at a font size in pixels."""
    return _ems(text, bold) * size / 1000


def without_glyphs(text: str) -> set[str]:
    """The characters of `text` that the shipped font cannot draw."""
    return {character for character in set(text) if character not in _advances(False) and character != "\n"}


def shorten_middle(text: str, limit: float, size: float, *, bold: bool = False) -> str:
    """`text`, or its two ends around an ellipsis, not wider than `limit` pixels.

    The ends of a dotted path or a class name say more than its middle.
    """
    if text_width(text, size, bold=bold) <= limit:
        return text
    low, high = 0, len(text) - 1
    while low < high:
        kept = (low + high + 1) // 2
        if text_width(_ends(text, kept), size, bold=bold) <= limit:
            low = kept
        else:
            high = kept - 1
    return _ends(text, low)


def _ends(text: str, kept: int) -> str:
    head = (kept + 1) // 2
    tail = kept - head
    return text[:head].rstrip() + ELLIPSIS + (text[-tail:].lstrip() if tail else "")


def wrap(text: str, limit: float, size: float) -> list[str]:
    """Lines of whole words, none wider than `limit`. A single word that is wider is shortened."""
    lines: list[str] = []
    for paragraph in text.splitlines() or [""]:
        line = ""
        for word in paragraph.split():
            longer = f"{line} {word}" if line else word
            if line and text_width(longer, size) > limit:
                lines.append(line)
                line = word
            else:
                line = longer
        lines.append(line)
    return [shorten_middle(line, limit, size) for line in lines]


def wrap_evenly(text: str, limit: float, size: float) -> list[str]:
    """As few lines as `wrap` makes, of about equal length: no single word is left on the last line."""
    lines = wrap(text, limit, size)
    while len(lines) > 1 and limit > 60 and len(narrower := wrap(text, limit - 10, size)) == len(lines):
        lines, limit = narrower, limit - 10
    return lines
