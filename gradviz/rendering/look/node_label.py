"""The label of an item: which of its words are drawn, where they are inside it, and the size that it needs.

Sizes come before positions: layout engines take node labels, and every painter writes the words where the label says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Literal

from gradviz.graph.model import Graph
from gradviz.rendering.look.palette import LEAF_ROLES, ROLE_STYLES, ROOT_ROLES, Role, role_of
from gradviz.rendering.look.text_metrics import ELLIPSIS, shorten_middle, text_width
from gradviz.rendering.words.flags import Flag
from gradviz.rendering.words.item_words import ItemText
from gradviz.rendering.words.value_words import BETWEEN
from gradviz.safe_text import one_line, printable
from gradviz.view.model import Item, View

TITLE_SIZE = 13.0
LEAF_TITLE_SIZE = 11.5
SMALL_SIZE = 10.5
BADGE_SIZE = 10.0
MAX_TEXT_WIDTH = 230.0
MAX_NAME_WIDTH = 190.0
"""Of a title beside a badge: as wide as ``post_attention_layernorm``."""
MAX_SETTINGS_WIDTH = 120.0
MAX_HEADER_ASIDE = 190.0
BADGE_PADDING = 6.0
BADGE_GAP = 7.0
ASIDE_GAP = 6.0
"""Between the words of a line and the quiet words after them."""
SHEETS_DEPTH = 7.0
"""How far the sheets of a repeated box extend below it."""
HEADER_HEIGHT = 27.0
_FLAG_HEIGHT = 19.0

_SIDE_PADDING = 13.0
_SHAPE_PADDING = {"hexagon": 8.0, "slanted": 7.0, "bars": 6.0, "octagon": 3.0, "cut": 4.0, "double": 3.0}
_MIN_WIDTH = 64.0
_RHYTHM = 12
"""Widths of boxes are multiples of this: widths that differ by one pixel look like a mistake."""
_MIN_FACT = 45.0
"""The minimum that is kept of a word that must be cut."""

TextStyle = Literal["title", "leaf", "small"]
_STYLES: dict[TextStyle, tuple[float, bool]] = {
    "title": (TITLE_SIZE, True),
    "leaf": (LEAF_TITLE_SIZE, True),
    "small": (SMALL_SIZE, False),
}


@dataclass(frozen=True, slots=True)
class TextLine:
    """One line of words, centred in its box, with its baseline at `y` from the upper edge."""

    text: str
    y: float
    style: TextStyle
    aside: str = ""
    """Quiet words after `text` on the same line."""


@dataclass(frozen=True, slots=True)
class NodeLabel:
    """What is drawn on one item, and the size that it needs."""

    role: Role
    width: float
    height: float
    lines: tuple[TextLine, ...]
    badge: str = ""
    is_open: bool = False
    sheets: bool = False
    """True for a repeated box: it looks like a stack of sheets."""
    flag: Flag | None = None
    """A chip below the other words, or after those of a leaf."""
    flag_y: float = 0.0
    """Its baseline, from the upper edge."""
    tints: tuple[str, ...] = ()
    """Set if it is not coloured by its role: see `gradviz.rendering.look.color_by`."""

    @property
    def is_leaf(self) -> bool:
        return self.role in LEAF_ROLES

    @property
    def is_one_line(self) -> bool:
        """True for leaves and roots."""
        return self.is_leaf or self.role in ROOT_ROLES


def line_width(line: TextLine) -> float:
    """Width of a line with its quiet words."""
    size, bold = _STYLES[line.style]
    aside = text_width(line.aside, SMALL_SIZE) + ASIDE_GAP if line.aside else 0.0
    return text_width(line.text, size, bold=bold) + aside


def node_labels_of(graph: Graph, view: View, texts: tuple[ItemText, ...]) -> tuple[NodeLabel, ...]:
    """The label of every item of `view`, in order."""
    return tuple(node_label_of(graph, item, text) for item, text in zip(view.items, texts, strict=True))


def node_label_of(graph: Graph, item: Item, text: ItemText) -> NodeLabel:
    """The label of one item."""
    words = replace(text, tooltip=()) if text.tooltip else text
    return _label(role_of(item, graph), words, is_open=item.is_open, sheets=item.repeat > 1)


def with_room_for(badges: Iterable[str], node_label: NodeLabel) -> NodeLabel:
    """The same label, as wide as its title needs beside any of `badges`; pages exchange them."""
    if node_label.is_one_line:
        return node_label
    wanted = line_width(node_label.lines[0]) + max(map(_badge_width_with_gap, badges), default=0.0)
    width = round(wanted + 2 * _SIDE_PADDING) if node_label.is_open else _box_width(node_label.role, [wanted])
    return replace(node_label, width=width) if width > node_label.width else node_label


def tinted(node_labels: Iterable[NodeLabel], tints: Iterable[tuple[str, ...]]) -> tuple[NodeLabel, ...]:
    """The same labels in other colours."""
    return tuple(replace(node_label, tints=own) for node_label, own in zip(node_labels, tints, strict=True))


@lru_cache(maxsize=4096)
def _label(role: Role, text: ItemText, *, is_open: bool, sheets: bool) -> NodeLabel:
    """Many items of a large picture have the same words, so each label is made only once."""
    if is_open:
        return _open_label(role, text, sheets=sheets)
    if role in LEAF_ROLES or role in ROOT_ROLES:
        return _leaf_label(role, text)
    return _closed_label(role, text, sheets=sheets)


def badge_width(badge: str) -> float:
    """Width of the chip around a badge."""
    return text_width(badge, BADGE_SIZE, bold=True) + 2 * BADGE_PADDING


def _badge_width_with_gap(badge: str) -> float:
    return badge_width(badge) + BADGE_GAP if badge else 0.0


def header_width(node_label: NodeLabel) -> float:
    """Width of the title of an open box with its badge."""
    return line_width(node_label.lines[0]) + _badge_width_with_gap(node_label.badge)


def header_room(node_label: NodeLabel) -> float:
    """The width that the title of an open box may take; more than it takes if its badge can be exchanged."""
    return max(header_width(node_label), node_label.width - 2 * _SIDE_PADDING)


def _open_label(role: Role, text: ItemText, *, sheets: bool) -> NodeLabel:
    """The label of an open box. Its width is the minimum for the header; the contents decide the rest."""
    title = _fitting_title(text.title, MAX_TEXT_WIDTH)
    aside = _subtitle((text.subtitle, _line(text)), MAX_HEADER_ASIDE)
    badge = one_line(text.badge)
    line = TextLine(title, 18, "title", aside)
    width = line_width(line) + _badge_width_with_gap(badge) + 2 * _SIDE_PADDING
    return NodeLabel(role, round(width), HEADER_HEIGHT, (line,), badge, is_open=True, sheets=sheets)


def _leaf_label(role: Role, text: ItemText) -> NodeLabel:
    """The label of a leaf or a root: one line, so that it fits beside its user."""
    title = shorten_middle(one_line(text.title), 150, LEAF_TITLE_SIZE, bold=True)
    title = " ".join(filter(None, (ROLE_STYLES[role].sign, title)))
    facts = (text.settings, shorten_middle(one_line(text.shape), 110, SMALL_SIZE), text.figure, text.numbers)
    aside = printable(" · ".join(filter(None, facts)))
    height = 26.0 if role in ROOT_ROLES else 23.0
    line = TextLine(title, height / 2 + 4, "leaf", aside)
    padding = 11.0 + _SHAPE_PADDING.get(ROLE_STYLES[role].shape, 0.0)
    width = line_width(line) + _badge_width_with_gap(text.flag.text if text.flag else "")
    return NodeLabel(role, round(width + 2 * padding), height, (line,), flag=text.flag, flag_y=line.y)


def _closed_label(role: Role, text: ItemText, *, sheets: bool) -> NodeLabel:
    """The label of an operation or a folded box: title, torch's name for it, then variable, shape and line.

    What the title, or the title of a box around it, says already is only in the tooltip.
    """
    badge = text.figure or shorten_middle(one_line(text.badge), 110, BADGE_SIZE, bold=True)
    title = _fitting_title(text.title, max(MAX_TEXT_WIDTH - _badge_width_with_gap(badge), MAX_NAME_WIDTH))
    lines = [TextLine(title, 19, "title", shorten_middle(one_line(text.settings), MAX_SETTINGS_WIDTH, SMALL_SIZE))]
    widths = [line_width(lines[0]) + _badge_width_with_gap(badge)]
    facts = (text.name, text.shape, _line(text))
    subtitle = "" if text.says_it_twice else text.subtitle
    quiet = (_subtitle((subtitle,), MAX_TEXT_WIDTH), _within(facts, MAX_TEXT_WIDTH, cut_in_turn=(0, 2, 1)))
    for number, words in enumerate(filter(None, quiet)):
        widths.append(text_width(words, SMALL_SIZE))
        lines.append(TextLine(words, 34 + 14 * number, "small"))
    for words in _number_lines(text.numbers):
        lines.append(TextLine(words, lines[-1].y + 15, "leaf"))
        widths.append(line_width(lines[-1]))
    if text.flag:
        widths.append(badge_width(text.flag.text))
    bottom = lines[-1].y + (10 if len(lines) > 1 else 11)
    height = bottom + (_FLAG_HEIGHT if text.flag else 0) + (SHEETS_DEPTH if sheets else 0)
    return NodeLabel(
        role, _box_width(role, widths), height, tuple(lines), badge, sheets=sheets, flag=text.flag, flag_y=bottom + 8.0
    )


def _box_width(role: Role, widths: Sequence[float]) -> float:
    """The width of an operation or a folded box whose lines have these widths."""
    padding = _SIDE_PADDING + _SHAPE_PADDING.get(ROLE_STYLES[role].shape, 0.0)
    return _RHYTHM * ceil(max(_MIN_WIDTH, max(widths) + 2 * padding) / _RHYTHM)


def _number_lines(numbers: str) -> list[str]:
    """Value and gradient on one line if they fit, else each on its own, shortened at its end."""
    if text_width(numbers, LEAF_TITLE_SIZE, bold=True) <= MAX_TEXT_WIDTH:
        return [numbers] if numbers else []
    return [_fewer_numbers(words) for words in numbers.split(BETWEEN)]


def _fewer_numbers(words: str) -> str:
    """``↓ [-1.01, -1.18, …]``: as many whole numbers as fit."""
    shown = words.removesuffix("]").removesuffix(f", {ELLIPSIS}").split(", ")
    while len(shown) > 1 and text_width(words, LEAF_TITLE_SIZE, bold=True) > MAX_TEXT_WIDTH:
        shown.pop()
        words = f"{', '.join(shown)}, {ELLIPSIS}" + ("" if shown[-1].endswith("]") else "]")
    return shorten_middle(words, MAX_TEXT_WIDTH, LEAF_TITLE_SIZE, bold=True)


_LIST = re.compile(r"^[\w ×.]+(, [\w ×.]+)*(, … (?P<more>[\d,]+) more)?$")


def _fitting_title(title: str, limit: float) -> str:
    """A title of at most `limit` pixels. Of a list of operations the last ones become a number: ``LSTM, … 4 more``."""
    words = one_line(title)
    found = _LIST.match(words)
    if found is not None:
        shown = words.split(f", {ELLIPSIS}")[0].split(", ")
        more = int((found["more"] or "0").replace(",", ""))
        while len(shown) > 1 and text_width(words, TITLE_SIZE, bold=True) > limit:
            shown.pop()
            more += 1
            words = f"{', '.join(shown)}, {ELLIPSIS} {more:,} more"
    return shorten_middle(words, limit, TITLE_SIZE, bold=True)


def _line(text: ItemText) -> str:
    return "" if text.line_is_said else text.short_line or text.line


def _subtitle(words: tuple[str, ...], limit: float) -> str:
    """``GPT2Block · shapes differ``: a long class name must not cost the words after it."""
    return _within(" · ".join(filter(None, words)).split(" · "), limit, cut_in_turn=(0,))


def _within(facts: Sequence[str], limit: float, *, cut_in_turn: Sequence[int]) -> str:
    """``hidden · [8, 64] · line 41``. Facts at the given indices are cut, one after the other, until all of it fits."""
    words = [one_line(fact) for fact in facts]
    for index in cut_in_turn:
        others = sum(text_width(f"{word} · ", SMALL_SIZE) for at, word in enumerate(words) if word and at != index)
        words[index] = shorten_middle(words[index], max(limit - others, _MIN_FACT), SMALL_SIZE)
    return shorten_middle(" · ".join(filter(None, words)), limit, SMALL_SIZE)
