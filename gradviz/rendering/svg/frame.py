"""The words around the picture: what was recorded above it; legend, error and notes below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradviz.graph.query.own_line import line_words_of
from gradviz.rendering.formats import Subject
from gradviz.rendering.look.geometry import Layout, Point
from gradviz.rendering.look.node_label import SMALL_SIZE, NodeLabel
from gradviz.rendering.look.shapes import number
from gradviz.rendering.look.text_metrics import shorten_middle, wrap, wrap_evenly
from gradviz.rendering.svg.legend import LegendOptions, legend_markup
from gradviz.rendering.svg.xml_text import xml_text
from gradviz.rendering.words.common_words import counted, listed, short_line_words
from gradviz.safe_text import one_line

MARGIN = 24.0
MIN_TEXT_WIDTH = 480.0
MAX_TEXT_WIDTH = 900.0
_LINE = 15.0


@dataclass(frozen=True)
class Frame:
    """The whole page: its size, the corner of the picture, and the words around it."""

    name: str
    width: float
    height: float
    left: float
    top: float
    markup: str


def frame_of(subject: Subject, node_labels: Sequence[NodeLabel], layout: Layout, options: LegendOptions) -> Frame:
    """The page around `layout`."""
    inner = max(layout.width, MIN_TEXT_WIDTH)
    text_room = min(inner, MAX_TEXT_WIDTH)
    program = subject.capture.program
    name = subject.capture.titled(" ".join([program.name, *program.arguments]))
    top = MARGIN + 15
    parts = [_text(shorten_middle(one_line(name), text_room * 0.72, 15, bold=True), MARGIN, top, "p")]
    for line in wrap_evenly(recorded_facts(subject), text_room, SMALL_SIZE):
        top += _LINE
        parts.append(_text(line, MARGIN, top))
    for line in wrap(one_line(subject.headline), text_room * 0.93, SMALL_SIZE) if subject.headline else ():
        top += _LINE
        parts.append(_text(line, MARGIN, top, "e"))
    top += MARGIN
    y = top + layout.height + MARGIN
    legend, height = legend_markup(subject, node_labels, options, Point(MARGIN, y), text_room)
    y += height + 8 if legend else 0
    error, notes = remarks(subject, layout)
    for sentences, css_class in (([error] if error else [], "e"), (notes, "")):
        for sentence in sentences:
            for line in wrap(one_line(sentence), text_room * (0.93 if css_class else 1.0), SMALL_SIZE):
                parts.append(_text(line, MARGIN, y + 11, css_class))
                y += _LINE
            y += 3
    left = MARGIN + (inner - layout.width) / 2
    markup = f'<g class="f">\n{"".join(parts)}</g>\n{legend}'
    return Frame(name, inner + 2 * MARGIN, y + MARGIN / 2, left, top, markup)


def recorded_facts(subject: Subject) -> str:
    """One line about what was recorded and, if something is folded or merged, how much of it is shown."""
    items = subject.view.items
    if all(item.is_open or len(item.nodes) < 2 for item in items):
        return call_facts(subject)
    return f"{call_facts(subject)} · {sum(not item.is_open for item in items):,} items shown"


def call_facts(subject: Subject) -> str:
    """One line about what was recorded."""
    graph, program = subject.graph, subject.capture.program
    # Without the suffix for the build of torch: every build must give the same picture of a program.
    version = program.torch_version.partition("+")[0]
    facts = [f"torch {version}" if version else ""]
    call = graph.backward
    if call is not None:
        where = ""
        if call.call_site is not None:
            where = f" at {short_line_words(graph.call_sites[call.call_site], program.name)}"
        facts.append(f"{call.function}() no. {call.number}{where}")
    elif any(root.name for root in graph.roots):
        facts.append(f"from {listed([root.name for root in graph.roots if root.name], 3)}, without a backward()")
    facts.append(counted(len(graph.nodes), "autograd node"))
    rank = subject.capture.rank
    if rank is not None and rank.world_size > 1 and rank.backend:
        facts.append(f"process group {rank.backend}")  # not the host: the same run gives the same bytes everywhere
    return one_line(" · ".join(filter(None, facts)))


def remarks(subject: Subject, layout: Layout | None = None) -> tuple[str, list[str]]:
    """The script's error in one sentence (or empty), and every note and disclosure."""
    error = subject.capture.error
    sentence = ""
    if error is not None:
        where = f" ({line_words_of(*error.call_site)})" if error.call_site else ""
        kind = "backward failed" if error.in_backward else "the script failed"
        sentence = f"✗ {kind}{where}: {error.type_name}: {error.message}"
    missing = (f"not recorded: {each}" for each in subject.capture.disclosures)
    return sentence, [*subject.view.notes, *(layout.notes if layout else ()), *missing]


def _text(words: str, x: float, y: float, css_class: str = "") -> str:
    attribute = f' class="{css_class}"' if css_class else ""
    return f'<text{attribute} x="{number(x)}" y="{number(y)}">{xml_text(one_line(words))}</text>\n'
