"""SVG by our own painter: self-contained, with selectable text, tooltips and a dark theme."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from xml.sax.saxutils import escape

from gradviz.errors import BadInput, near_matches
from gradviz.graph.view import Item, View
from gradviz.rendering import labels
from gradviz.rendering.faces import Face, faces_of, printable
from gradviz.rendering.geometry import Direction, Layout, Rect
from gradviz.rendering.graphviz_engine import lay_out_with_dot
from gradviz.rendering.headers import header_starts
from gradviz.rendering.labels import ItemText
from gradviz.rendering.layout import lay_out
from gradviz.rendering.palette import failed_item
from gradviz.rendering.renderer import Subject
from gradviz.rendering.shapes import number, rounded_route
from gradviz.rendering.svg_frame import frame_of
from gradviz.rendering.svg_items import header_markup, item_markup, open_box_markup
from gradviz.rendering.svg_style import ThemeChoice, style_sheet

Engine = Literal["graphlay", "dot"]

_ARROWS = "".join(
    f'<marker id="{name}" viewBox="0 0 8 8" refX="7.4" refY="4" markerWidth="8" markerHeight="8" orient="auto" '
    f'markerUnits="userSpaceOnUse"><path class="{name}" d="M0 .6L8 4L0 7.4z"/></marker>'
    for name in ("a", "ak")
)


@dataclass(frozen=True)
class SvgRenderer:
    """Draws a subject as one SVG text."""

    direction: Direction = "TB"
    theme: ThemeChoice = "auto"
    engine: Engine = "graphlay"
    embed_font: bool = True

    def __post_init__(self) -> None:
        _check("direction", self.direction, ("TB", "LR"))
        _check("theme", self.theme, ("auto", "light", "dark"))
        _check("engine", self.engine, ("graphlay", "dot"))

    def render(self, subject: Subject) -> str:
        return self.draw(subject).markup

    def draw(self, subject: Subject, *, extra_notes: tuple[str, ...] = ()) -> Drawing:
        """The SVG together with its size, with `extra_notes` below those of the view."""
        view = subject.view
        texts = labels.item_texts(subject.capture, subject.graph, view)
        faces = faces_of(subject.graph, view, texts)
        engine = lay_out_with_dot if self.engine == "dot" else lay_out
        layout = engine(view, faces, self.direction)
        layout = replace(layout, notes=layout.notes + extra_notes)
        frame = frame_of(subject, faces, layout)
        picture = "".join(_picture(view, texts, faces, layout, failed_item(view, subject.graph)))
        width, height = number(frame.width), number(frame.height)
        markup = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img">\n'
            f"<title>{escape(printable(frame.name))}</title>\n"
            f"<style>{escape(style_sheet(self.theme, embed_font=self.embed_font))}</style>\n"
            f"<defs>{_ARROWS}</defs>\n"
            f'<rect class="page" width="{width}" height="{height}"/>\n'
            f"{frame.markup}"
            f'<g transform="translate({number(frame.left)} {number(frame.top)})">\n{picture}</g>\n</svg>\n'
        )
        return Drawing(markup, frame.width, frame.height)


@dataclass(frozen=True)
class Drawing:
    """An SVG and its size in pixels."""

    markup: str
    width: float
    height: float


def _check(option: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise BadInput(f"unknown {option} {value!r}", hint=near_matches(value, choices))


def _picture(
    view: View, texts: Sequence[ItemText], faces: Sequence[Face], layout: Layout, failed: int | None
) -> Iterator[str]:
    """Layer by layer: open boxes, then links, then closed items and headers on top."""
    depths = view.depths()
    for item, face, box in _each(view, faces, layout):
        if item.is_open:
            yield open_box_markup(face, box, depths[item.id], failed=item.id == failed)
    yield '<g class="l">\n'
    for link, route in zip(view.links, layout.routes, strict=True):
        if route:
            quiet = ' class="k" marker-end="url(#ak)"' if faces[link.source].role == "constant" else ""
            yield f'<path{quiet or _MARKED} d="{rounded_route(route)}"/>\n'
    yield "</g>\n"
    starts = header_starts(view, faces, layout)
    for item, face, box in _each(view, faces, layout):
        text, depth, has_failed = texts[item.id], depths[item.id], item.id == failed
        if item.is_open:
            yield header_markup(item.id, face, text, box, starts[item.id], depth, failed=has_failed)
        else:
            yield item_markup(item.id, face, text, box, depth, failed=has_failed)


_MARKED = ' marker-end="url(#a)"'


def _each(view: View, faces: Sequence[Face], layout: Layout) -> Iterator[tuple[Item, Face, Rect]]:
    return zip(view.items, faces, layout.boxes, strict=True)
