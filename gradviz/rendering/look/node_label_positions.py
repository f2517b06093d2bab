"""Where the words of a closed item start, for all painters: the left end of each line and of each chip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gradviz.rendering.look.geometry import Rect
from gradviz.rendering.look.node_label import BADGE_GAP, NodeLabel, TextLine, TextStyle, badge_width, line_width

LINE_CLASSES: dict[TextStyle, str] = {"title": "t", "leaf": "v", "small": "q"}
"""The classes of lines in style sheets."""


class PositionedLine(NamedTuple):
    """A line of words with its class and the left end of its baseline.

    The left end is computed, because painters centre a text of two sizes differently.
    """

    line: TextLine
    css_class: str
    left: float
    baseline: float


class PositionedChip(NamedTuple):
    """A badge, or a flag if it has a level, with the left end of the baseline of its words."""

    text: str
    left: float
    baseline: float
    level: str = ""


@dataclass(frozen=True)
class PositionedWords:
    """All words of one item."""

    lines: tuple[PositionedLine, ...]
    chips: tuple[PositionedChip, ...]


def positioned_words(node_label: NodeLabel, front: Rect) -> PositionedWords:
    """The words of a closed item whose front is the rectangle `front`."""
    center, title = front.center.x, node_label.lines[0]
    beside = node_label.badge or (node_label.flag.text if node_label.flag and node_label.is_one_line else "")
    shift = (badge_width(beside) + BADGE_GAP) / 2 if beside else 0.0
    lines = tuple(
        PositionedLine(
            line, LINE_CLASSES[line.style], center - (0.0 if number else shift) - line_width(line) / 2, front.y + line.y
        )
        for number, line in enumerate(node_label.lines)
    )
    after_title = center - shift + line_width(title) / 2 + BADGE_GAP
    chips = [PositionedChip(node_label.badge, after_title, front.y + title.y)] if node_label.badge else []
    if node_label.flag:
        left = after_title if node_label.is_one_line else center - badge_width(node_label.flag.text) / 2
        chips.append(PositionedChip(node_label.flag.text, left, front.y + node_label.flag_y, node_label.flag.level))
    return PositionedWords(lines, tuple(chips))
