"""Points, rectangles and the finished layout: the output of layout engines and the input of painters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

Direction = Literal["TB", "LR"]
Arrows = Literal["data", "gradient"]
"""The direction of the arrowheads: with the data, or with the gradient. Positions are the same."""


class Point(NamedTuple):
    x: float
    y: float


class Rect(NamedTuple):
    """A rectangle by its upper left corner and its size, in pixels."""

    x: float
    y: float
    width: float
    height: float

    @property
    def center(self) -> Point:
        return Point(self.x + self.width / 2, self.y + self.height / 2)

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height


Route = tuple[Point, ...]


@dataclass(frozen=True)
class Layout:
    """The finished layout. `boxes[i]` is item i of the view, `routes[k]` its link k, from source to target."""

    width: float
    height: float
    boxes: tuple[Rect, ...]
    routes: tuple[Route, ...]
    notes: tuple[str, ...] = ()


def tidy(points: Iterable[Point]) -> Route:
    """The same line without repeated points and without points inside a straight stretch."""
    line: list[Point] = []
    for point in points:
        here = Point(round(point[0], 1), round(point[1], 1))
        if line and line[-1] == here:
            continue
        if len(line) > 1 and _straight(line[-2], line[-1], here):
            line[-1] = here
        else:
            line.append(here)
    return tuple(line)


def _straight(first: Point, middle: Point, last: Point) -> bool:
    return (first.x == middle.x == last.x) or (first.y == middle.y == last.y)


def transposed(layout: Layout) -> Layout:
    """The same layout with x and y exchanged: top to bottom becomes left to right."""
    boxes = tuple(Rect(box.y, box.x, box.height, box.width) for box in layout.boxes)
    routes = tuple(tuple(Point(y, x) for x, y in route) for route in layout.routes)
    return Layout(layout.height, layout.width, boxes, routes, layout.notes)
