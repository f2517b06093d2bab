"""Markup of single items: outline, words, badge, tooltip."""

from __future__ import annotations

from gradviz.rendering.look.color_by import middle_tint
from gradviz.rendering.look.geometry import Rect
from gradviz.rendering.look.node_label import (
    ASIDE_GAP,
    BADGE_GAP,
    BADGE_PADDING,
    BADGE_SIZE,
    SHEETS_DEPTH,
    NodeLabel,
    TextLine,
    badge_width,
    line_width,
)
from gradviz.rendering.look.node_label_positions import PositionedChip, positioned_words
from gradviz.rendering.look.palette import ROLE_STYLES
from gradviz.rendering.look.shapes import inner_lines, number, outline, rounded
from gradviz.rendering.look.text_metrics import text_width
from gradviz.rendering.svg.style import shade
from gradviz.rendering.svg.xml_text import xml_text
from gradviz.rendering.words.item_words import ItemText
from gradviz.safe_text import printable


def item_markup(item: int, node_label: NodeLabel, text: ItemText, box: Rect, *, failed: bool, fill: str = "") -> str:
    """A closed item with its words; `fill` is the style of its outline if it has several colours."""
    front, behind = sheets_of(node_label, box)
    shape = ROLE_STYLES[node_label.role].shape
    inner = inner_lines("double" if "changed" in node_label.tints else shape, front)
    # If there are several tints, the middle one colours the outline and the words.
    classes = " ".join(filter(None, (node_label.role, middle_tint(node_label), "failed" if failed else "")))
    style = f' style="{fill}"' if fill and not failed else ""
    parts = [
        f'<g class="{classes}" data-item="{item}">{tooltip(text)}',
        *(f'<path class="s" d="{outline(shape, sheet)}"/>' for sheet in behind),
        f'<path class="s"{style} d="{outline(shape, front)}"/>',
        f'<path class="i" d="{inner}"/>' if inner else "",
    ]
    words = positioned_words(node_label, front)
    parts += [_text(line, css_class, left, y) for line, css_class, left, y in words.lines]
    parts += [_badge(chip.text, chip.left, chip.baseline) for chip in words.chips if not chip.level]
    parts += [_mark(chip) for chip in words.chips if chip.level]
    parts.append(_failure_tag(box) if failed else "")
    return "".join(parts) + "</g>\n"


def open_box_markup(node_label: NodeLabel, box: Rect, depth: int, *, failed: bool) -> str:
    """The background of an open box."""
    front, behind = sheets_of(node_label, box)
    kind = f"o {shade(depth)}{' failed' if failed else ''}"
    return "".join(f'<path class="{kind}" d="{rounded(sheet, 9)}"/>\n' for sheet in (*behind, front))


def header_markup(
    item: int, node_label: NodeLabel, text: ItemText, box: Rect, x: float, depth: int, *, failed: bool
) -> str:
    """The title of an open box from `x` on, drawn over the wires below it."""
    line = node_label.lines[0]
    y = box.y + line.y
    words = _text(line, f"t {shade(depth)}", x, y)
    badge = ""
    if node_label.badge:
        badge = f'<g class="box">{_badge(node_label.badge, x + line_width(line) + BADGE_GAP, y)}</g>'
    tag = _failure_tag(box) if failed else ""
    return f'<g class="h" data-item="{item}">{tooltip(text)}{words}{badge}{tag}</g>\n'


def tooltip(text: ItemText) -> str:
    """All facts, unshortened, as an SVG title: browsers show it on hover."""
    lines = [" ".join(filter(None, (text.title, text.badge))), text.subtitle, text.shape, text.line, *text.tooltip]
    unique = dict.fromkeys(printable(line) for line in lines if line)
    return f"<title>{xml_text(chr(10).join(unique))}</title>"


def sheets_of(node_label: NodeLabel, box: Rect) -> tuple[Rect, list[Rect]]:
    """The front of an item and, for a repeated box, the sheets behind it, the last one first."""
    if not node_label.sheets:
        return box, []
    front = box._replace(height=box.height - SHEETS_DEPTH)
    steps = (SHEETS_DEPTH, SHEETS_DEPTH / 2)
    return front, [Rect(front.x + step, front.y + step, front.width - 2 * step, front.height) for step in steps]


def _text(line: TextLine, css_class: str, left: float, y: float) -> str:
    aside = f'<tspan class="q" dx="{ASIDE_GAP:g}">{xml_text(line.aside)}</tspan>' if line.aside else ""
    return f'<text class="{css_class}" x="{number(left)}" y="{number(y)}">{xml_text(line.text)}{aside}</text>'


def _badge(badge: str, left: float, baseline: float) -> str:
    """A chip around a short count, beside a title with the same baseline."""
    width = badge_width(badge)
    chip = Rect(left, baseline - 11.5, width, 15)
    x, y = number(left + BADGE_PADDING), number(baseline - 0.4)
    words = f'<text class="b" x="{x}" y="{y}">{xml_text(badge)}</text>'
    return f'<path class="c" d="{rounded(chip, 7.5)}"/>{words}'


def _mark(chip: PositionedChip) -> str:
    """A chip in the colour of its level."""
    return f'<g class="{chip.level}">{_badge(chip.text, chip.left, chip.baseline)}</g>'


def _failure_tag(box: Rect) -> str:
    """A tag on the upper right corner of the item in which backward raised."""
    words = "✗ backward failed here" if box.width > 170 else "✗ failed"
    width = text_width(words, BADGE_SIZE, bold=True) + 14
    chip = Rect(box.right - width + 6, box.y - 13, width, 17)
    x = chip.x + 7
    return (
        f'<g class="x"><path d="{rounded(chip, 5)}"/><text x="{number(x)}" y="{number(chip.y + 12)}">{words}</text></g>'
    )
