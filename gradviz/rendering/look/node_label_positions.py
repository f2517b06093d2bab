"""Where the words of a closed item start, for all painters: the left end of each line, and of the chips beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gradviz.rendering.look.geometry import Rect
from gradviz.rendering.look.node_label import BADGE_GAP, NodeLabel, TextLine, TextStyle, badge_width, line_width

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


def placed_words(node_label: NodeLabel, front: Rect) -> PlacedWords:
    """The words of a closed item whose front is there."""
    center, title = front.center.x, node_label.lines[0]
    beside = node_label.badge or (node_label.flag.text if node_label.flag and node_label.is_one_line else "")
    shift = (badge_width(beside) + BADGE_GAP) / 2 if beside else 0.0
    lines = tuple(
        PlacedLine(
            line, LINE_CLASSES[line.style], center - (0.0 if number else shift) - line_width(line) / 2, front.y + line.y
        )
        for number, line in enumerate(node_label.lines)
    )
    after_title = center - shift + line_width(title) / 2 + BADGE_GAP
    chips = [PlacedChip(node_label.badge, after_title, front.y + title.y)] if node_label.badge else []
    if node_label.flag:
        left = after_title if node_label.is_one_line else center - badge_width(node_label.flag.text) / 2
        chips.append(PlacedChip(node_label.flag.text, left, front.y + node_label.flag_y, node_label.flag.level))
    return PlacedWords(lines, tuple(chips))
