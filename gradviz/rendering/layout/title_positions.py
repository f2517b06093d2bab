"""Where the title of each open box starts: at the left, or further right if a wire would run through it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from gradviz.rendering.look.geometry import Layout, Rect, Route
from gradviz.rendering.look.node_label import HEADER_HEIGHT, NodeLabel, header_width
from gradviz.view.model import Link, View

SIDE = 13.0
"""Between the border of the box and its title."""
CLEARANCE = 7.0
"""Between a wire and a title."""

Span = tuple[float, float]


def header_starts(view: View, node_labels: Sequence[NodeLabel], layout: Layout) -> list[float]:
    """For every item, the x at which its title starts if it is an open box."""
    blocked: dict[int, list[Span]] = {}
    for link, route in zip(view.links, layout.routes, strict=True):
        for box in _boxes_with_header_near(view, layout, link, route):
            blocked.setdefault(box, []).extend(_spans(route, _band(layout.boxes[box])))
    return [
        _start(box, header_width(node_label), sorted(blocked.get(number, ())))
        for number, (box, node_label) in enumerate(zip(layout.boxes, node_labels, strict=True))
    ]


def _band(box: Rect) -> Rect:
    return Rect(box.x, box.y + 5, box.width, HEADER_HEIGHT - 8)


def _boxes_with_header_near(view: View, layout: Layout, link: Link, route: Route) -> Iterator[int]:
    """The open boxes around both ends, outwards until the whole route is below the header."""
    top = min((point.y for point in route), default=0.0)
    seen = set()
    for end in (link.source, link.target):
        box = view.items[end].parent
        while box is not None and box not in seen and top < layout.boxes[box].y + HEADER_HEIGHT:
            seen.add(box)
            yield box
            box = view.items[box].parent


def _spans(route: Route, band: Rect) -> Iterator[Span]:
    """The parts of the header's width over which a route runs."""
    for start, end in pairwise(route):
        if min(start.y, end.y) < band.bottom and max(start.y, end.y) > band.y:
            yield min(start.x, end.x) - CLEARANCE, max(start.x, end.x) + CLEARANCE


def _start(box: Rect, width: float, blocked: Sequence[Span]) -> float:
    """The first free stretch that is wide enough, or the left end if there is none."""
    start = first = box.x + SIDE
    for left, right in blocked:
        if left < start + width:
            start = max(start, right)
    return start if start + width <= box.right - SIDE / 2 else first
