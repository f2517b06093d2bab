"""What one can point at in a picture: wires through words and boxes, its ratio of sides, and its blank space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from gradviz.rendering.layout.link_label_positions import LinkLabel, find_link_label_positions
from gradviz.rendering.layout.title_positions import header_starts
from gradviz.rendering.look.geometry import Layout, Point, Rect
from gradviz.rendering.look.node_label import HEADER_HEIGHT, NodeLabel, header_width
from gradviz.rendering.svg.svg import LaidOut, SvgRenderer
from gradviz.rendering.words.gradient_words import LinkGradients
from gradviz.rendering.words.item_words import item_texts
from gradviz.rendering.words.link_words import link_texts
from gradviz.view.model import View

INSET = 1.0
"""A wire that only touches a border does not cross the box."""
MAX_STEP = 28.0
"""A longer step of a wire is a turn."""
CELL = 40.0
"""Side of the squares in which blank space is counted."""


@dataclass(frozen=True)
class Measured:
    """The figures of one picture."""

    width: float
    height: float
    crossings: tuple[str, ...]
    """Each wire that crosses words or a box that it does not belong to, in words."""
    missing_labels: int
    """Words of wires for which there is no space, other than those that stand beside the wire already."""
    steps: int
    """The number of small sideways steps that wires make between two upright stretches."""
    blank: float
    """The share of the picture in which there is neither an item, nor a title, nor a wire."""

    @property
    def ratio(self) -> float:
        """The longer side over the shorter one."""
        return max(self.width, self.height) / min(self.width, self.height)


def measured(laid_out: LaidOut) -> Measured:
    """The figures of a picture that is laid out; its size is that with title, legend and notes."""
    view, layout, labels = laid_out.subject.view, laid_out.layout, laid_out.node_labels
    facts = laid_out.subject.facts
    words = [text.label for text in link_texts(facts, LinkGradients(facts), item_texts(facts))]
    starts = header_starts(view, labels, layout)
    found = find_link_label_positions(view, labels, layout, words, starts)
    crossings = tuple(crossings_in(view, labels, layout, found))
    wanted = {(view.links[link].source, text) for link, text in enumerate(words) if text and layout.routes[link]}
    there = {(view.links[label.link].source, label.words) for label in found}
    blank = _blank_share(view, labels, layout, starts)
    drawing = SvgRenderer(embed_font=False).framed(laid_out)
    steps = sum(_steps_in(route) for route in layout.routes)
    return Measured(drawing.width, drawing.height, crossings, len(wanted - there), steps, blank)


def _steps_in(route: Sequence[Point]) -> int:
    """Small steps of a wire that runs downwards, in pictures from top to bottom."""
    stretches = zip(route, route[1:], route[2:], route[3:], strict=False)
    return sum(
        start.x == turn.x
        and back.x == end.x
        and turn.y == back.y
        and start.y < turn.y < end.y
        and 0 < abs(back.x - turn.x) < MAX_STEP
        for start, turn, back, end in stretches
    )


def crossings_in(
    view: View, labels: Sequence[NodeLabel], layout: Layout, link_labels: Sequence[LinkLabel] = ()
) -> Iterator[str]:
    """Each wire that crosses a title, words beside a wire, or a box that it does not belong to, in words."""
    starts = header_starts(view, labels, layout)
    titles = {
        item.id: title_rect(layout.boxes[item.id], labels[item.id], starts[item.id])
        for item in view.items
        if item.is_open
    }
    around = _boxes_around(view)
    for number, (link, route) in enumerate(zip(view.links, layout.routes, strict=True)):
        name = f"{_name(labels, link.source)} -> {_name(labels, link.target)}"
        stretches = list(pairwise(route))
        own = {link.source, link.target}
        for item in view.items:
            box = layout.boxes[item.id]
            if item.is_open:
                if _cross(stretches, titles[item.id]):
                    yield f"{name} crosses the title of {_name(labels, item.id)}"
                belongs = item.id in own or item.id in around[link.source] or item.id in around[link.target]
                if not belongs and _cross(stretches, box):
                    yield f"{name} crosses the box {_name(labels, item.id)}"
            elif _cross(stretches, box):
                yield f"{name} crosses {'its own end' if item.id in own else _name(labels, item.id)}"
        for label in link_labels:
            if _cross(stretches, label.box):
                yield f"{name} crosses the words {label.words!r} of {'itself' if label.link == number else 'another'}"
    for label in link_labels:
        for item in view.items:
            solid = titles[item.id] if item.is_open else layout.boxes[item.id]
            if _overlap(solid, label.box):
                yield f"the words {label.words!r} lie on {_name(labels, item.id)}"


def title_rect(box: Rect, label: NodeLabel, start: float) -> Rect:
    """The rectangle that the title of an open box fills."""
    return Rect(start, box.y + 6, header_width(label), HEADER_HEIGHT - 10)


def _name(labels: Sequence[NodeLabel], item: int) -> str:
    return f"{labels[item].lines[0].text} ({item})"


def _boxes_around(view: View) -> list[frozenset[int]]:
    around: list[frozenset[int]] = []
    for item in view.items:
        around.append(frozenset() if item.parent is None else around[item.parent] | {item.parent})
    return around


def _cross(stretches: Sequence[tuple[Point, Point]], rect: Rect) -> bool:
    return any(
        min(start.x, end.x) < rect.right - INSET
        and max(start.x, end.x) > rect.x + INSET
        and min(start.y, end.y) < rect.bottom - INSET
        and max(start.y, end.y) > rect.y + INSET
        for start, end in stretches
    )


def _overlap(one: Rect, other: Rect) -> bool:
    return (
        one.x < other.right - INSET
        and other.x < one.right - INSET
        and one.y < other.bottom - INSET
        and other.y < one.bottom - INSET
    )


def _blank_share(view: View, labels: Sequence[NodeLabel], layout: Layout, starts: Sequence[float]) -> float:
    used: set[tuple[int, int]] = set()
    for item in view.items:
        box = layout.boxes[item.id]
        used.update(_cells(title_rect(box, labels[item.id], starts[item.id]) if item.is_open else box))
    for route in layout.routes:
        for start, end in pairwise(route):
            left, top = min(start.x, end.x), min(start.y, end.y)
            used.update(_cells(Rect(left, top, abs(start.x - end.x), abs(start.y - end.y))))
    cells = ceil(layout.width / CELL) * ceil(layout.height / CELL)
    return 1 - min(1.0, len(used) / max(1, cells))


def _cells(rect: Rect) -> Iterator[tuple[int, int]]:
    for column in range(int(rect.x // CELL), int(rect.right // CELL) + 1):
        for row in range(int(rect.y // CELL), int(rect.bottom // CELL) + 1):
            yield column, row
