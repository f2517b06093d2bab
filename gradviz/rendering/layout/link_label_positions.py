"""Where the words of links are drawn: beside their wire, not on a box, a title or another wire.

Most wires are short and many pictures are crowded. A label without free space is left out: the tooltip of its link has
the same words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from gradviz.rendering.look.geometry import Layout, Point, Rect, Route
from gradviz.rendering.look.node_label import HEADER_HEIGHT, NodeLabel, header_width
from gradviz.rendering.look.text_metrics import text_width
from gradviz.view.model import View

LABEL_SIZE = 9.5
LABEL_HEIGHT = 11.0
CLEARANCE = 5.0
"""Between a label and its own wire."""
MIN_STRETCH = 12.0
"""A shorter stretch of wire has no label."""

_CELL = 120.0
_MAX_IN_A_CELL = 60
_FRACTIONS = (0.5, 0.3, 0.7, 0.12, 0.88)
"""Fractions of a stretch of wire at which a label is tried."""


class LinkLabel(NamedTuple):
    """The words beside a link, and the rectangle that they fill."""

    link: int
    words: str
    box: Rect


def find_link_label_positions(
    view: View, node_labels: Sequence[NodeLabel], layout: Layout, words: Sequence[str], header_starts: Sequence[float]
) -> list[LinkLabel]:
    """Those of `words` (one for each link, many empty) that fit somewhere, in the order of the links."""
    wanted = [link for link, text in enumerate(words) if text and layout.routes[link]]
    if not wanted:
        return []
    free_space = _FreeSpace(view, node_labels, layout, header_starts)
    found = {}
    # Labels on short wires have the fewest possible positions, so they come first.
    for link in sorted(wanted, key=lambda link: (_length(layout.routes[link]), link)):
        box = free_space.find_for(link, words)
        if box is not None:
            found[link] = LinkLabel(link, words[link], box)
    return [found[link] for link in sorted(found)]


class _FreeSpace:
    """Everything in the picture, to find out which positions are free."""

    def __init__(
        self, view: View, node_labels: Sequence[NodeLabel], layout: Layout, header_starts: Sequence[float]
    ) -> None:
        self._view, self._layout = view, layout
        self._page = Rect(0, 0, layout.width, layout.height)
        self._solid = _Grid()
        self._wires = _Grid()
        self._labelled: dict[int, str] = {}
        for item, node_label in zip(view.items, node_labels, strict=True):
            for part in _solid_parts(layout.boxes[item.id], node_label, header_starts[item.id]):
                self._solid.add(part)
        for link, route in enumerate(layout.routes):
            for start, end in pairwise(route):
                self._wires.add(_around(start, end, 1.5), link)

    def find_for(self, link: int, words: Sequence[str]) -> Rect | None:
        """The first free rectangle beside a link. It is then occupied."""
        width = text_width(words[link], LABEL_SIZE)
        for at, box in _candidates(self._layout.routes[link], width):
            if self._wires.is_crowded(_around(at, box.center, 0)):
                continue
            others = self._on_the_same_wire(link, at)
            if any(self._labelled.get(other) == words[link] for other in others):
                return None  # A stretch shared with another link has these words already.
            if any(words[other] != words[link] for other in others) or not self._is_free(box):
                continue
            self._solid.add(box)
            self._labelled[link] = words[link]
            return box
        return None

    def _on_the_same_wire(self, link: int, at: Point) -> set[int]:
        """Links of the same source that run together with this one at a point."""
        near = self._wires.touching(Rect(at.x, at.y, 0, 0))
        return {other for other in near if self._view.links[other].source == self._view.links[link].source} - {link}

    def _is_free(self, box: Rect) -> bool:
        is_on_page = box.x >= 0 and box.y >= 0 and box.right <= self._page.right and box.bottom <= self._page.bottom
        return is_on_page and not self._solid.touching(box) and not self._wires.touching(box)


class _Grid:
    """Rectangles by the cells of a grid that they cover: the search costs the same in any picture."""

    def __init__(self) -> None:
        self._cells: defaultdict[tuple[int, int], list[tuple[Rect, int]]] = defaultdict(list)

    def add(self, rect: Rect, owner: int = -1) -> None:
        for cell in _cells_of(rect):
            self._cells[cell].append((rect, owner))

    def is_crowded(self, rect: Rect) -> bool:
        """Whether there is so much around `rect` that a user could not tell what a label belongs to."""
        return any(len(self._cells.get(cell, ())) > _MAX_IN_A_CELL for cell in _cells_of(rect))

    def touching(self, rect: Rect) -> set[int]:
        """The owners of the rectangles that overlap `rect`."""
        return {
            owner
            for cell in _cells_of(rect)
            for other, owner in self._cells.get(cell, ())
            if other.x <= rect.right and rect.x <= other.right and other.y <= rect.bottom and rect.y <= other.bottom
        }


def _cells_of(rect: Rect) -> Iterator[tuple[int, int]]:
    for column in range(int(rect.x // _CELL), int(rect.right // _CELL) + 1):
        for row in range(int(rect.y // _CELL), int(rect.bottom // _CELL) + 1):
            yield column, row


def _solid_parts(box: Rect, node_label: NodeLabel, header_start: float) -> Iterator[Rect]:
    """All of a closed item; the border and the title of an open box."""
    if not node_label.is_open:
        yield Rect(box.x - 2, box.y - 1, box.width + 4, box.height + 2)
        return
    yield Rect(header_start, box.y + 4, header_width(node_label), HEADER_HEIGHT - 6)
    yield from (Rect(box.x, y - 1, box.width, 2) for y in (box.y, box.bottom))
    yield from (Rect(x - 1, box.y, 2, box.height) for x in (box.x, box.right))


def _around(start: Point, end: Point, margin: float) -> Rect:
    left, top = min(start.x, end.x), min(start.y, end.y)
    return Rect(left - margin, top - margin, abs(start.x - end.x) + 2 * margin, abs(start.y - end.y) + 2 * margin)


def _candidates(route: Route, width: float) -> Iterator[tuple[Point, Rect]]:
    """Positions beside a wire, on the longest stretch first: a point on the wire, and the rectangle of the label."""
    stretches = sorted(pairwise(route), key=lambda stretch: -_length(stretch))
    for start, end in stretches:
        if _length((start, end)) < MIN_STRETCH:
            return
        is_level = abs(end.x - start.x) > abs(end.y - start.y)
        for fraction in _FRACTIONS:
            at = Point(start.x + (end.x - start.x) * fraction, start.y + (end.y - start.y) * fraction)
            for left, top in _corners(at, width, is_level=is_level):
                yield at, Rect(round(left, 1), round(top, 1), round(width, 1), LABEL_HEIGHT)


def _corners(at: Point, width: float, *, is_level: bool) -> tuple[tuple[float, float], ...]:
    """Upper left corners of a label on both sides of a wire: above and below a horizontal one, else right and left."""
    if is_level:
        left = at.x - width / 2
        return ((left, at.y - CLEARANCE + 1 - LABEL_HEIGHT), (left, at.y + CLEARANCE - 1))
    top = at.y - LABEL_HEIGHT / 2
    return ((at.x + CLEARANCE, top), (at.x - CLEARANCE - width, top))


def _length(route: Route) -> float:
    return sum(abs(start.x - end.x) + abs(start.y - end.y) for start, end in pairwise(route))
