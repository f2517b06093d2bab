"""The legend below a picture: the meaning of its outlines, colours and arrows, for those that appear.

Operations are explained only if folded boxes look similar, so that a picture of three boxes does not have a legend
longer than the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradviz.rendering.formats import Subject
from gradviz.rendering.look.color_by import QUANTITY_WORDS, Colouring, Tint
from gradviz.rendering.look.color_ramps import STEPS, Quantity
from gradviz.rendering.look.geometry import Arrows, Point, Rect
from gradviz.rendering.look.legend_words import role_words
from gradviz.rendering.look.link_looks import LinkLook
from gradviz.rendering.look.node_label import SMALL_SIZE, NodeLabel
from gradviz.rendering.look.palette import LEAF_ROLES, ROLE_STYLES, ROOT_ROLES, Role
from gradviz.rendering.look.shapes import inner_lines, number, outline, rounded, rounded_route
from gradviz.rendering.look.text_metrics import text_width
from gradviz.rendering.svg.xml_text import xml_text
from gradviz.rendering.words.value_words import DOWN, UP

ROW_HEIGHT = 20.0
_SWATCH = Rect(0, 0, 22, 14)
_GAP = 18.0
_BASELINE = 11.0


@dataclass(frozen=True)
class LegendOptions:
    """What the legend must explain in addition to the roles."""

    arrows: Arrows
    colouring: Colouring | None = None
    looks: frozenset[LinkLook] = frozenset()


@dataclass(frozen=True)
class _Entry:
    """A swatch, drawn with its upper left corner at 0, 0, and the words after it; for a scale, words before it too."""

    swatch: str
    words: str
    swatch_width: float = _SWATCH.width
    before: str = ""

    @property
    def swatch_at(self) -> float:
        return text_width(self.before, SMALL_SIZE) + 6 if self.before else 0.0

    @property
    def words_at(self) -> float:
        return self.swatch_at + self.swatch_width + 6

    @property
    def width(self) -> float:
        return self.words_at + text_width(self.words, SMALL_SIZE)


def legend_markup(
    subject: Subject, node_labels: Sequence[NodeLabel], options: LegendOptions, corner: Point, width: float
) -> tuple[str, float]:
    """Swatches with their words in rows no wider than `width`, and the height of these rows."""
    entries = list(_entries(subject, node_labels, options))
    rows = _rows(entries, _least_width(entries, width))
    parts = []
    for row, members in enumerate(rows):
        x = corner.x
        for entry in members:
            parts.append(_placed(entry, x, corner.y + row * ROW_HEIGHT))
            x += entry.width + _GAP
    return "".join(parts), len(rows) * ROW_HEIGHT


def _entries(subject: Subject, node_labels: Sequence[NodeLabel], options: LegendOptions) -> Iterator[_Entry]:
    if options.colouring is not None:
        yield from _tint_entries(options.colouring)
    tint = "" if options.colouring is None else " plain"
    by_kind = options.colouring is not None and options.colouring.keeps_roles
    present = {node_label.role for node_label in node_labels}
    in_own_colours = {node_label.role for node_label in node_labels if not node_label.tints}
    if tint:
        # Without their own colours they look like items without a tint.
        present -= {"box", "operation"} - (in_own_colours if by_kind else set())
    tells_operations = by_kind or any(each.role == "box" and not each.is_open for each in node_labels)
    for role in ROLE_STYLES:
        if role in present and (role != "operation" or tells_operations):
            words = "other operation" if by_kind and role == "operation" else role_words(role, subject)
            keeps = role in ROOT_ROLES or (by_kind and role in in_own_colours)
            yield _Entry(
                _role_swatch(role, "" if keeps else tint), " ".join(filter(None, (ROLE_STYLES[role].sign, words)))
            )
    if any(node_label.sheets for node_label in node_labels):
        sums = ", with their sum" if options.colouring and options.colouring.by in ("memory", "time") else ""
        yield _Entry(_sheets_swatch("" if by_kind else tint), f"several alike, drawn once{sums}")
    if subject.view.links:
        yield _Entry(_arrow_swatch("", "a"), _ARROW_WORDS[options.arrows])
    if any(DOWN in line.text or DOWN in line.aside for node_label in node_labels for line in node_label.lines):
        signs = f'<g class="f"><text x="3" y="{number(_BASELINE)}">{DOWN} {UP}</text></g>'
        yield _Entry(signs, "value and gradient")
    states = {look.state for look in options.looks}
    if "lost" in states:
        yield _Entry(_arrow_swatch("lost", "ak"), "gradient 0 or none")
    if "ghost" in states:
        yield _Entry(_arrow_swatch("ghost", "ag"), "where a gradient would go back")
    if "broken" in states:
        yield _Entry(_arrow_swatch("broken", "ab"), "gradient with NaN or Inf")


def _tint_entries(colouring: Colouring) -> Iterator[_Entry]:
    """The scale or the modules, and the tints that are not on a scale."""
    for tint, name in colouring.categories:
        yield _Entry(_tint_swatch(tint), name)
    if colouring.by not in QUANTITY_WORDS:
        return
    scale = colouring.scale
    if scale is not None:
        cells = "".join(_cell(f"step{step}", step * _CELL_WIDTH) for step in range(STEPS))
        before = f"{QUANTITY_WORDS[colouring.by]}: {scale.low_words}"
        log = ", log scale" if scale.is_log else ""
        yield _Entry(cells, f"{scale.high_words}{log}", STEPS * _CELL_WIDTH, before)
        if colouring.by == "gradient":
            yield _Entry(_arrow_swatch(f"flow{STEPS - 1}", "a"), "links: as wide as that is large")
    if "plain" in colouring.present:
        yield _Entry(_tint_swatch("plain"), PLAIN_WORDS[colouring.by])
    if "unknown" in colouring.present:
        yield _Entry(_tint_swatch("unknown"), "not measured")
    if "broken" in colouring.present:
        yield _Entry(_tint_swatch("broken"), "NaN or Inf")


def legend_tints(colouring: Colouring) -> set[Tint]:
    """The tints that the legend shows, whether items have them or not."""
    steps = {f"step{step}" for step in range(STEPS)} if colouring.scale is not None else set()
    return {"plain", *steps, *(tint for tint, _ in colouring.categories)}


_CELL_WIDTH = 16.0
PLAIN_WORDS: dict[Quantity, str] = {
    "gradient": "zero, or none wanted",
    "memory": "nothing kept",
    "time": "nothing to run",
}


def _cell(tint: Tint, x: float) -> str:
    position = f'x="{number(x)}" width="{number(_CELL_WIDTH)}" height="{number(_SWATCH.height)}"'
    return f'<g class="{tint}"><rect class="s" style="stroke:none" {position}/></g>'


def _tint_swatch(tint: Tint) -> str:
    inner = f'<path class="i" d="{inner_lines("double", _SWATCH)}"/>' if tint == "changed" else ""
    return f'<g class="box {tint}"><path class="s" d="{rounded(_SWATCH, 3)}"/>{inner}</g>'


_ARROW_WORDS: dict[Arrows, str] = {
    "data": "data; gradients go back",
    "gradient": "gradients; data comes against them",
}


def _least_width(entries: Sequence[_Entry], width: float) -> float:
    """The smallest width that needs no more rows than `width`: rows of about equal length."""
    wanted = len(_rows(entries, width))
    while len(_rows(entries, width - 10)) == wanted and width > 60:
        width -= 10
    return width


def _rows(entries: Sequence[_Entry], width: float) -> list[list[_Entry]]:
    rows: list[list[_Entry]] = []
    x = 0.0
    for entry in entries:
        if not rows or x + entry.width > width:
            rows.append([])
            x = 0.0
        rows[-1].append(entry)
        x += entry.width + _GAP
    return rows


def _placed(entry: _Entry, x: float, y: float) -> str:
    words = (
        f'<g class="f"><text x="{number(entry.words_at)}" y="{number(_BASELINE)}">{xml_text(entry.words)}</text></g>'
    )
    swatch = entry.swatch
    if entry.before:
        before = f'<g class="f"><text x="0" y="{number(_BASELINE)}">{xml_text(entry.before)}</text></g>'
        swatch = f'{before}<g transform="translate({number(entry.swatch_at)} 0)">{swatch}</g>'
    return f'<g transform="translate({number(x)} {number(y)})">{swatch}{words}</g>\n'


def role_outline(role: Role) -> tuple[str, str]:
    """Path data of a small outline of a role, and of the lines inside it."""
    height = 12.0 if role in LEAF_ROLES else _SWATCH.height
    box = Rect(0, (_SWATCH.height - height) / 2, _SWATCH.width, height)
    return outline(ROLE_STYLES[role].shape, box), inner_lines(ROLE_STYLES[role].shape, box)


def _role_swatch(role: Role, tint: str) -> str:
    around, inner = role_outline(role)
    lines = f'<path class="i" d="{inner}"/>' if inner else ""
    return f'<g class="{role}{tint}"><path class="s" d="{around}"/>{lines}</g>'


def _sheets_swatch(tint: str) -> str:
    front = Rect(0, 0, _SWATCH.width, 10)
    sheets = (front._replace(x=step, y=step, width=front.width - 2 * step) for step in (4, 2, 0))
    paths = "".join(f'<path class="s" d="{rounded(sheet, 3)}"/>' for sheet in sheets)
    return f'<g class="box{tint}">{paths}</g>'


def _arrow_swatch(css_class: str, head: str) -> str:
    middle = _SWATCH.height / 2
    path = rounded_route((Point(0, middle), Point(_SWATCH.width, middle)))
    kind = f' class="{css_class}"' if css_class else ""
    return f'<g class="l"><path{kind} marker-end="url(#{head})" d="{path}"/></g>'
