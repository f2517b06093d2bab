"""Where the words of a closed item start, for all painters: the left end of each line, and of the chips beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gradviz.rendering.look.geometry import Rect
from gradviz.rendering.look.node_label import BADGE_GAP, Face, TextLine, TextStyle, badge_width, line_width

LINE_CLASSES: dict[TextStyle, str] = {"title": "t", "leaf": "v", "small": "q"}
"""The classes of lines in style sheets."""


class PlacedLine(NamedTuple):
    """A line of words with its class and its left end on the baseline.

    The left end is computed: painters disagree about how to centre a text of two sizes.
    """

    line: TextLine
    css_class: str
    left: float
    baseline: float


class PlacedChip(NamedTuple):
    """A badge, or with a level a mark, with its left end on the baseline of its words."""

    text: str
    left: float
    baseline: float
    level: str = ""


@dataclass(frozen=True)
class PlacedWords:
    """All words of one item."""

    lines: tuple[PlacedLine, ...]
    chips: tuple[PlacedChip, ...]


def placed_words(face: Face, front: Rect) -> PlacedWords:
    """The words of a closed item whose front is there."""
    center, title = front.center.x, face.lines[0]
    beside = face.badge or (face.mark.text if face.mark and face.is_one_line else "")
    shift = (badge_width(beside) + BADGE_GAP) / 2 if beside else 0.0
    lines = tuple(
        PlacedLine(
            line, LINE_CLASSES[line.style], center - (0.0 if number else shift) - line_width(line) / 2, front.y + line.y
        )
        for number, line in enumerate(face.lines)
    )
    after_title = center - shift + line_width(title) / 2 + BADGE_GAP
    chips = [PlacedChip(face.badge, after_title, front.y + title.y)] if face.badge else []
    if face.mark:
        left = after_title if face.is_one_line else center - badge_width(face.mark.text) / 2
        chips.append(PlacedChip(face.mark.text, left, front.y + face.mark_y, face.mark.level))
    return PlacedWords(lines, tuple(chips))
