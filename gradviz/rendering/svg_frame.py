"""What stands around the picture: what was recorded above it; legend, error and notes below it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from xml.sax.saxutils import escape

from gradviz.rendering.faces import SMALL_SIZE, Face, printable
from gradviz.rendering.geometry import Layout, Rect
from gradviz.rendering.palette import LEAF_ROLES, ROLE_STYLES, Role
from gradviz.rendering.renderer import Subject
from gradviz.rendering.shapes import inner_lines, number, outline
from gradviz.rendering.text_metrics import shorten_middle, text_width, wrap

MARGIN = 24.0
MIN_TEXT_WIDTH = 460.0
MAX_TEXT_WIDTH = 900.0
_LINE = 15.0
_SWATCH = 22.0


@dataclass(frozen=True)
class Frame:
    """The whole page: its size, where the picture starts, and the words around it."""

    name: str
    width: float
    height: float
    left: float
    top: float
    markup: str


def frame_of(subject: Subject, faces: Sequence[Face], layout: Layout) -> Frame:
    """The page around `layout`."""
    inner = max(layout.width, MIN_TEXT_WIDTH)
    text_room = min(inner, MAX_TEXT_WIDTH)
    name = " ".join([subject.capture.program.name, *subject.capture.program.arguments])
    top = MARGIN + 15
    parts = [_text(shorten_middle(_flat(name), text_room * 0.72, 15, bold=True), MARGIN, top, "p")]
    for line in wrap(recorded_facts(subject), text_room, SMALL_SIZE):
        top += _LINE
        parts.append(_text(line, MARGIN, top))
    top += MARGIN
    y = top + layout.height + MARGIN
    legend, y = _legend(faces, text_room, y)
    error, notes = remarks(subject, layout)
    for sentences, css_class in (([error] if error else [], "e"), (notes, "")):
        for sentence in sentences:
            for line in wrap(_flat(sentence), text_room * (0.93 if css_class else 1.0), SMALL_SIZE):
                parts.append(_text(line, MARGIN, y + 11, css_class))
                y += _LINE
            y += 3
    left = MARGIN + (inner - layout.width) / 2
    markup = f'<g class="f">\n{"".join(parts)}</g>\n{legend}'
    return Frame(name, inner + 2 * MARGIN, y + MARGIN / 2, left, top, markup)


def recorded_facts(subject: Subject) -> str:
    """One line about what was recorded."""
    graph, program = subject.graph, subject.capture.program
    facts = [f"torch {program.torch_version}" if program.torch_version else ""]
    call = graph.backward
    if call is not None:
        where = ""
        if call.call_site is not None:
            site = graph.call_sites[call.call_site]
            where = f" at {PurePath(site.file).name}:{site.line}"
        facts.append(f"{call.function}() no. {call.number}{where}")
    facts.append(f"{len(graph.nodes):,} autograd nodes")
    shown = sum(not item.is_open for item in subject.view.items)
    facts.append(f"{shown:,} items shown")
    return _flat(" · ".join(filter(None, facts)))


def remarks(subject: Subject, layout: Layout | None = None) -> tuple[str, list[str]]:
    """The script's error in one sentence (or nothing), and every note and disclosure."""
    error = subject.capture.error
    sentence = ""
    if error is not None:
        where = f" ({PurePath(error.call_site[0]).name}:{error.call_site[1]})" if error.call_site else ""
        kind = "backward failed" if error.in_backward else "the script failed"
        sentence = f"✗ {kind}{where}: {error.type_name}: {error.message}"
    return sentence, [*subject.view.notes, *(layout.notes if layout else ()), *subject.capture.disclosures]


def _flat(text: str) -> str:
    return " ".join(printable(text).split())


def _text(words: str, x: float, y: float, css_class: str = "") -> str:
    attribute = f' class="{css_class}"' if css_class else ""
    return f'<text{attribute} x="{number(x)}" y="{number(y)}">{escape(words)}</text>\n'


def _legend(faces: Iterable[Face], room: float, y: float) -> tuple[str, float]:
    """A row of swatches for the roles that appear, and the y below it."""
    present = {face.role for face in faces}
    entries = [role for role in ROLE_STYLES if role in present]
    parts = []
    x = 0.0
    for role in entries:
        words = " ".join(filter(None, (ROLE_STYLES[role].sign, ROLE_STYLES[role].name)))
        width = _SWATCH + 6 + text_width(words, SMALL_SIZE) + 18
        if x and x + width > room:
            x, y = 0.0, y + 20
        parts.append(_swatch(role, MARGIN + x, y))
        parts.append(f'<g class="f">{_text(words, MARGIN + x + _SWATCH + 6, y + 11)}</g>')
        x += width
    return "".join(parts), y + 28 if entries else y


def _swatch(role: Role, x: float, y: float) -> str:
    height = 12.0 if role in LEAF_ROLES else 14.0
    box = Rect(x, y + (14 - height) / 2, _SWATCH, height)
    inner = inner_lines(ROLE_STYLES[role].shape, box)
    lines = f'<path class="i" d="{inner}"/>' if inner else ""
    return f'<g class="{role}"><path class="s" d="{outline(ROLE_STYLES[role].shape, box)}"/>{lines}</g>\n'
