"""Takes small steps out of wires: where one moves aside by a few pixels just before an item, it goes straight on.

The border of a box is crossed where its inside was laid out, and items outside it stand where these were laid out; the
two can differ by a few pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from gradviz.rendering.look.geometry import Layout, Point, Rect, Route, tidy
from gradviz.view.model import Link, View

MAX_STEP = 28.0
"""A longer one is a turn."""
MAX_LINKS = 2_000
"""In larger pictures nobody sees steps, and each would be compared with every wire."""
_CORNER = 10.0
"""How far from the ends of its border a wire touches an item."""
_APART = 9.0
"""Between wires beside each other."""


def straightened(view: View, layout: Layout) -> Layout:
    """The same layout, with wires that touch items straight above or below where they come from, if there is space."""
    if len(view.links) > MAX_LINKS:
        return layout
    routes = list(layout.routes)
    closed = [item.id for item in view.items if not item.is_open]
    for number, link in enumerate(view.links):
        inner = _without_inner_step(routes[number])
        if inner != routes[number] and not _touches(inner, _solid(layout, closed, link)):
            routes[number] = inner
        for is_end, item in ((True, link.target), (False, link.source)):
            route = routes[number]
            fixed = route if is_end else route[::-1]
            found = None if view.items[item].is_open else _without_step(fixed, layout.boxes[item])
            if found is None or not _is_free(found, number, routes):
                continue
            if not _touches(found, _solid(layout, closed, link)):
                routes[number] = found if is_end else found[::-1]
    return replace(layout, routes=tuple(routes))


def _without_inner_step(route: Route) -> Route:
    """The route without a step after which it turns aside: it turns aside from where it came down."""
    for index in range(len(route) - 4):
        start, turn, back, end, aside = route[index : index + 5]
        if _is_step(start, turn, back, end) and aside.y == end.y:
            return tidy((*route[: index + 1], Point(turn.x, end.y), *route[index + 4 :]))
    return route


def _is_step(start: Point, turn: Point, back: Point, end: Point) -> bool:
    """Whether a wire runs up or down, moves aside by a few pixels, and goes on in the same direction."""
    is_upright = start.x == turn.x and turn.y == back.y and back.x == end.x
    return is_upright and (turn.y - start.y) * (end.y - back.y) > 0 and 0 < abs(back.x - turn.x) < MAX_STEP


def _solid(layout: Layout, closed: Sequence[int], link: Link) -> list[Rect]:
    """The closed items that a link must not touch."""
    return [layout.boxes[item] for item in closed if item not in (link.source, link.target)]


def _touches(route: Route, solid: Sequence[Rect]) -> bool:
    """Whether a route runs through one of some items."""
    return any(
        min(start.x, end.x) < box.right + 2
        and max(start.x, end.x) > box.x - 2
        and min(start.y, end.y) < box.bottom + 2
        and max(start.y, end.y) > box.y - 2
        for start, end in pairwise(route)
        for box in solid
    )


def _without_step(route: Route, box: Rect) -> Route | None:
    """The route without a step before its end at `box`; None if it has none, or if the box is elsewhere."""
    if len(route) < 4:
        return None
    start, turn, back, end = route[-4:]
    if not _is_step(start, turn, back, end) or not box.x + _CORNER <= turn.x <= box.right - _CORNER:
        return None
    return tidy((*route[:-3], Point(turn.x, end.y)))


def _is_free(route: Route, number: int, routes: Sequence[Route]) -> bool:
    """Whether the last stretch of a route is apart from other wires that run the same way."""
    (x, first), (_, last) = route[-2], route[-1]
    top, bottom = min(first, last), max(first, last)
    others = (other for index, other in enumerate(routes) if index != number and other)
    return not any(
        abs(other_x - x) < _APART and low < bottom and top < high
        for other in others
        for other_x, low, high in _upright(other)
    )


def _upright(route: Route) -> Iterator[tuple[float, float, float]]:
    """The x and the two ends of every upright stretch."""
    for start, end in pairwise(route):
        if start.x == end.x:
            yield start.x, min(start.y, end.y), max(start.y, end.y)
