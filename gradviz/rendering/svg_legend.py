"""The legend below a picture: what its outlines, colours and arrows mean, for those that appear.

Plain operations are explained only where folded boxes look much like them, so that a picture of three boxes does not
get a legend that is longer than the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from gradviz.rendering.faces import SMALL_SIZE, Face
from gradviz.rendering.geometry import Arrows, Point, Rect
from gradviz.rendering.palette import LEAF_ROLES, ROLE_STYLES, Role
from gradviz.rendering.renderer import Subject
from gradviz.rendering.role_words import role_words
from gradviz.rendering.shapes import inner_lines, number, outline, rounded, rounded_route
from gradviz.rendering.text_metrics import text_width

ROW_HEIGHT = 20.0
_SWATCH = Rect(0, 0, 22, 14)
_WORDS_AT = _SWATCH.width + 6
_GAP = 18.0
_BASELINE = 11.0


@dataclass(frozen=True)
class _Entry:
    """A swatch, drawn with its upper left corner at 0, 0, and the words after it."""

    swatch: str
    words: str

    @property
    def width(self) -> float:
        return _WORDS_AT + text_width(self.words, SMALL_SIZE)


def legend_markup(
    subject: Subject, faces: Sequence[Face], arrows: Arrows, corner: Point, room: float
) -> tuple[str, float]:
    """Swatches with their words in rows not wider than `room`, and the height of these rows."""
    entries = list(_entries(subject, faces, arrows))
    rows = _rows(entries, _least_room(entries, room))
    parts = []
    for row, members in enumerate(rows):
        x = corner.x
        for entry in members:
            parts.append(_placed(entry, x, corner.y + row * ROW_HEIGHT))
            x += entry.width + _GAP
    return "".join(parts), len(rows) * ROW_HEIGHT


def _entries(subject: Subject, faces: Sequence[Face], arrows: Arrows) -> Iterator[_Entry]:
    present = {face.role for face in faces}
    tells_operations = any(face.role == "box" and not face.is_open for face in faces)
    for role in ROLE_STYLES:
        if role in present and (role != "operation" or tells_operations):
            words = " ".join(filter(None, (ROLE_STYLES[role].sign, role_words(role, subject))))
            yield _Entry(_role_swatch(role), words)
    if any(face.sheets for face in faces):
        yield _Entry(_sheets_swatch(), "several alike, drawn once")
    if subject.view.links:
        yield _Entry(_arrow_swatch(), _ARROW_WORDS[arrows])


_ARROW_WORDS: dict[Arrows, str] = {
    "data": "data; gradients go back",
    "gradient": "gradients; data comes against them",
}


def _least_room(entries: Sequence[_Entry], room: float) -> float:
    """The least room in which the entries need no more rows than in `room`: rows of about one length."""
    wanted = len(_rows(entries, room))
    while len(_rows(entries, room - 10)) == wanted and room > 60:
        room -= 10
    return room


def _rows(entries: Sequence[_Entry], room: float) -> list[list[_Entry]]:
    rows: list[list[_Entry]] = []
    x = 0.0
    for entry in entries:
        if not rows or x + entry.width > room:
            rows.append([])
            x = 0.0
        rows[-1].append(entry)
        x += entry.width + _GAP
    return rows


def _placed(entry: _Entry, x: float, y: float) -> str:
    place = f'x="{number(_WORDS_AT)}" y="{number(_BASELINE)}"'
    words = f'<g class="f"><text {place}>{escape(entry.words)}</text></g>'
    return f'<g transform="translate({number(x)} {number(y)})">{entry.swatch}{words}</g>\n'


def _role_swatch(role: Role) -> str:
    height = 12.0 if role in LEAF_ROLES else _SWATCH.height
    box = Rect(0, (_SWATCH.height - height) / 2, _SWATCH.width, height)
    inner = inner_lines(ROLE_STYLES[role].shape, box)
    lines = f'<path class="i" d="{inner}"/>' if inner else ""
    return f'<g class="{role}"><path class="s" d="{outline(ROLE_STYLES[role].shape, box)}"/>{lines}</g>'


def _sheets_swatch() -> str:
    front = Rect(0, 0, _SWATCH.width, 10)
    sheets = (front._replace(x=step, y=step, width=front.width - 2 * step) for step in (4, 2, 0))
    paths = "".join(f'<path class="s" d="{rounded(sheet, 3)}"/>' for sheet in sheets)
    return f'<g class="box">{paths}</g>'


def _arrow_swatch() -> str:
    middle = _SWATCH.height / 2
    path = rounded_route((Point(0, middle), Point(_SWATCH.width, middle)))
    return f'<g class="l"><path marker-end="url(#a)" d="{path}"/></g>'
