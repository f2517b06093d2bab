"""The SVG painter: self-contained pictures with selectable text, tooltips and a dark theme."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from xml.sax.saxutils import quoteattr

from gradviz.collector import collector_paused
from gradviz.errors import BadInput, check_choice
from gradviz.rendering.formats import Subject
from gradviz.rendering.layout.graphlay_engine import lay_out
from gradviz.rendering.layout.graphviz_engine import check_that_dot_is_there, lay_out_with_dot
from gradviz.rendering.layout.link_label_positions import LinkLabel, find_link_label_positions
from gradviz.rendering.layout.shape import SHAPES, Shape
from gradviz.rendering.layout.title_positions import header_starts
from gradviz.rendering.look.color_by import Colouring, drawn_colouring
from gradviz.rendering.look.color_ramps import COLOR_BY, ColorBy
from gradviz.rendering.look.geometry import Arrows, Direction, Layout, Rect
from gradviz.rendering.look.link_looks import LinkLook, link_looks
from gradviz.rendering.look.node_label import NodeLabel
from gradviz.rendering.look.palette import CUT_ROLES, failed_item
from gradviz.rendering.look.shapes import number
from gradviz.rendering.svg.document import svg_document
from gradviz.rendering.svg.frame import frame_of
from gradviz.rendering.svg.items import header_markup, item_markup, open_box_markup
from gradviz.rendering.svg.legend import LegendOptions, legend_tints
from gradviz.rendering.svg.links import arrowheads, label_markup, link_markup
from gradviz.rendering.svg.style import (
    Bands,
    More,
    ThemeChoice,
    cut_rules,
    flag_rules,
    link_rules,
    style_sheet,
    tint_rules,
)
from gradviz.rendering.words import item_words
from gradviz.rendering.words.gradient_words import LinkGradients
from gradviz.rendering.words.item_words import ItemText
from gradviz.rendering.words.link_words import LinkText, link_texts
from gradviz.rendering.words.source_links import editor_template, source_link
from gradviz.safe_text import one_line
from gradviz.view.model import View

Engine = Literal["graphlay", "dot"]
MAX_WORDS_TO_FIT = 60
"""With more words beside wires, those without space stay in tooltips: a larger picture would not be readable either."""


@dataclass(frozen=True)
class SvgRenderer:
    """Draws a subject as one SVG text."""

    direction: Direction = "TB"
    theme: ThemeChoice = "auto"
    engine: Engine = "graphlay"
    arrows: Arrows = "data"
    editor: str | None = None
    """The name of an editor or a link template, see `gradviz.rendering.words.source_links`; without it: no links."""
    embed_font: bool = True
    color_by: ColorBy = "kind"
    """The meaning of the colours of items."""
    shape: Shape = "auto"
    """What the picture is folded for: see `gradviz.rendering.layout.shape`."""

    def __post_init__(self) -> None:
        check_choice("direction", self.direction, ("TB", "LR"))
        check_choice("theme", self.theme, ("auto", "light", "dark"))
        check_choice("engine", self.engine, ("graphlay", "dot"))
        check_choice("arrows", self.arrows, ("data", "gradient"))
        check_choice("color_by", self.color_by, COLOR_BY)
        check_choice("shape", self.shape, SHAPES)
        if self.engine == "dot":
            if self.shape != "auto":
                raise BadInput(f"--shape {self.shape} has no effect on --engine dot", hint="leave out one of the two")
            check_that_dot_is_there()
        self._link_template()

    def _link_template(self) -> str | None:
        return None if self.editor is None else editor_template(self.editor)

    def render(self, subject: Subject) -> str:
        return self.draw(subject).markup

    def draw(self, subject: Subject) -> Drawing:
        """The SVG with its size."""
        return self.framed(self.lay_out(subject))

    @collector_paused()
    def lay_out(self, subject: Subject) -> LaidOut:
        """Everything but the frame with its legend and notes. This takes most of the time."""
        view, facts = subject.view, subject.facts
        gradients = LinkGradients(facts)
        texts = item_words.item_texts(facts)
        colouring, node_labels = drawn_colouring(subject, self.color_by, texts)
        words_of_links = link_texts(facts, gradients, texts)
        if self.engine == "dot":
            layout = lay_out_with_dot(view, node_labels, self.direction)
        else:
            layout = self._with_room_for_words(view, node_labels, [text.label for text in words_of_links])
        looks = link_looks(view, gradients, colouring)
        scene = _Scene(
            view, texts, words_of_links, node_labels, layout, failed_item(view, subject.graph), self.arrows,
            self._link_template(), looks, Bands(self.direction),
        )  # fmt: skip
        painted = "".join(scene.markup())
        return LaidOut(subject, node_labels, layout, looks, colouring, painted, scene.bands.definitions())

    def _with_room_for_words(self, view: View, node_labels: Sequence[NodeLabel], words: Sequence[str]) -> Layout:
        """The layout; with more space around the links whose words have no space, if more words are shown then."""

        def missing(layout: Layout) -> set[int]:
            starts = header_starts(view, node_labels, layout)
            shown = {label.link for label in find_link_label_positions(view, node_labels, layout, words, starts)}
            return {link for link, text in enumerate(words) if text} - shown

        layout = lay_out(view, node_labels, self.direction, self.shape)
        if not any(words) or sum(map(bool, words)) > MAX_WORDS_TO_FIT:
            return layout
        crowded = missing(layout)
        if not crowded:
            return layout
        roomy = lay_out(view, node_labels, self.direction, self.shape, roomy_links=crowded)
        return roomy if len(missing(roomy)) < len(crowded) else layout

    def framed(self, laid_out: LaidOut, *, extra_notes: tuple[str, ...] = ()) -> Drawing:
        """The SVG with its frame, with `extra_notes` below those of the view."""
        looks, colouring = laid_out.looks, laid_out.colouring
        layout = replace(laid_out.layout, notes=laid_out.layout.notes + extra_notes)
        legend = LegendOptions(self.arrows, colouring, frozenset(looks))
        frame = frame_of(laid_out.subject, laid_out.node_labels, layout, legend)
        more = _more_rules(laid_out.node_labels, colouring, looks)
        style = style_sheet(self.theme, embed_font=self.embed_font, more=more)
        defs = f"<defs>{arrowheads(looks)}{laid_out.bands}</defs>\n"
        content = (
            f"{frame.markup}"
            f'<g transform="translate({number(frame.left)} {number(frame.top)})">\n'
            f"{laid_out.painted}</g>\n"
        )
        markup = svg_document(one_line(frame.name), frame.width, frame.height, style, content, defs=defs)
        return Drawing(markup, frame.width, frame.height)


def _more_rules(node_labels: Sequence[NodeLabel], colouring: Colouring | None, looks: Sequence[LinkLook]) -> list[More]:
    """Only the rules that this picture needs: most pictures need none of these."""
    more: list[More] = []
    if colouring is not None:
        more.append(tint_rules(colouring, and_also=legend_tints(colouring)))
    if any(node_label.role in CUT_ROLES for node_label in node_labels):
        more.append(cut_rules)
    if any(look not in (LinkLook(), LinkLook("ghost")) for look in looks) or (
        colouring is not None and colouring.by == "gradient"
    ):
        more.append(link_rules)
    if any(node_label.flag for node_label in node_labels):
        more.append(flag_rules)
    return more


@dataclass(frozen=True)
class LaidOut:
    """A picture without its frame."""

    subject: Subject
    node_labels: Sequence[NodeLabel]
    layout: Layout
    looks: Sequence[LinkLook]
    colouring: Colouring | None
    painted: str
    """Its markup."""
    bands: str
    """Definitions that the markup refers to."""


@dataclass(frozen=True)
class Drawing:
    """An SVG and its size in pixels."""

    markup: str
    width: float
    height: float


@dataclass(frozen=True)
class _Scene:
    """Items and links with their positions and words, ready to be painted."""

    view: View
    texts: Sequence[ItemText]
    link_texts: Sequence[LinkText]
    node_labels: Sequence[NodeLabel]
    layout: Layout
    failed: int | None
    arrows: Arrows
    link_template: str | None
    looks: Sequence[LinkLook]
    bands: Bands

    def markup(self) -> Iterator[str]:
        """Layer by layer: open boxes, then links, then closed items and headers, and the words of links on top."""
        depths = self.view.depths()
        starts = header_starts(self.view, self.node_labels, self.layout)
        yield from self._open_boxes(depths)
        yield '<g class="l">\n'
        yield from self._links()
        yield "</g>\n"
        yield from self._items(depths, starts)
        yield '<g class="y">\n'
        words = [text.label for text in self.link_texts]
        for label in find_link_label_positions(self.view, self.node_labels, self.layout, words, starts):
            yield label_markup(label, self._depth_around(label, depths))
        yield "</g>\n"

    def _open_boxes(self, depths: Sequence[int]) -> Iterator[str]:
        for item, node_label, box in zip(self.view.items, self.node_labels, self.layout.boxes, strict=True):
            if item.is_open:
                yield open_box_markup(node_label, box, depths[item.id], failed=item.id == self.failed)

    def _links(self) -> Iterator[str]:
        links = zip(self.view.links, self.link_texts, self.layout.routes, self.looks, strict=True)
        for link, text, route, look in links:
            if route:
                is_quiet = self.node_labels[link.source].role == "constant"
                yield link_markup(text, route, self.arrows, look, is_quiet=is_quiet)

    def _items(self, depths: Sequence[int], starts: Sequence[float]) -> Iterator[str]:
        for item, node_label, box in zip(self.view.items, self.node_labels, self.layout.boxes, strict=True):
            text, failed = self.texts[item.id], item.id == self.failed
            if item.is_open:
                markup = header_markup(item.id, node_label, text, box, starts[item.id], depths[item.id], failed=failed)
            else:
                fill = self.bands.style_for(node_label.tints)
                markup = item_markup(item.id, node_label, text, box, failed=failed, fill=fill)
            yield self._linked_to_source(text, markup)

    def _depth_around(self, label: LinkLabel, depths: Sequence[int]) -> int | None:
        """The depth of the innermost box around a label; only boxes around the ends of its link are considered."""
        link = self.view.links[label.link]
        around: set[int] = set()
        for end in (link.source, link.target):
            box = self.view.items[end].parent
            while box is not None and not _holds(self.layout.boxes[box], label.box):
                box = self.view.items[box].parent
            around.update(() if box is None else (depths[box],))
        return max(around, default=None)

    def _linked_to_source(self, text: ItemText, markup: str) -> str:
        link = source_link(self.link_template, *text.source) if self.link_template and text.source else None
        return f"<a href={quoteattr(link)}>{markup}</a>" if link else markup


def _holds(box: Rect, label: Rect) -> bool:
    center = label.center
    return box.x <= center.x <= box.right and box.y <= center.y <= box.bottom
