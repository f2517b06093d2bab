"""The outlines of roles as SVG path data."""

from __future__ import annotations

from gradviz.rendering.look.geometry import Point, Rect, Route
from gradviz.rendering.look.palette import Shape

CORNER = 7.0
TURN = 8.0
"""Radius of the turns of a route."""


def number(value: float) -> str:
    """The shortest text of a coordinate with one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def outline(shape: Shape, box: Rect) -> str:
    """Path data of `shape` filling `box`."""
    x, y, right, bottom = box.x, box.y, box.right, box.bottom
    middle = box.center.y
    match shape:
        case "hexagon":
            notch = min(10.0, box.height / 3)
            return _polygon(
                (x + notch, y), (right - notch, y), (right, middle), (right - notch, bottom), (x + notch, bottom),
                (x, middle),
            )  # fmt: skip
        case "slanted":
            lean = 8.0
            return _polygon((x + lean, y), (right, y), (right - lean, bottom), (x, bottom))
        case "cut":
            cut = min(12.0, box.height / 2)
            return _polygon((x, y), (right - cut, y), (right, y + cut), (right, bottom), (x, bottom))
        case "octagon":
            cut = min(8.0, box.height / 4)
            return _polygon(
                (x + cut, y), (right - cut, y), (right, y + cut), (right, bottom - cut), (right - cut, bottom),
                (x + cut, bottom), (x, bottom - cut), (x, y + cut),
            )  # fmt: skip
        case "pill":
            return rounded(box, box.height / 2)
        case "bars":
            return rounded(box, 3)
        case "double" | "rounded":
            return rounded(box, min(CORNER, box.height / 4))


def inner_lines(shape: Shape, box: Rect) -> str:
    """Path data of the strokes inside the outline; empty for most shapes."""
    if shape == "bars":
        return "".join(f"M{number(x)} {number(box.y)}v{number(box.height)}" for x in (box.x + 5, box.right - 5))
    if shape == "double":
        return rounded(Rect(box.x + 3, box.y + 3, box.width - 6, box.height - 6), min(CORNER - 2.5, box.height / 8))
    return ""


def rounded(box: Rect, radius: float) -> str:
    """A rectangle with round corners."""
    r = number(radius)
    across, down = number(box.width - 2 * radius), number(box.height - 2 * radius)
    return (
        f"M{number(box.x + radius)} {number(box.y)}h{across}a{r} {r} 0 0 1 {r} {r}v{down}a{r} {r} 0 0 1 -{r} {r}"
        f"h-{across}a{r} {r} 0 0 1 -{r} -{r}v-{down}a{r} {r} 0 0 1 {r} -{r}z"
    )


def _polygon(*corners: tuple[float, float]) -> str:
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in corners) + "z"


def rounded_route(route: Route) -> str:
    """Path data of a route with rounded corners."""
    if len(route) < 2:
        return ""
    parts = [f"M{_pair(route[0])}"]
    for before, corner, after in zip(route, route[1:], route[2:], strict=False):
        radius = min(TURN, _distance(before, corner) / 2, _distance(corner, after) / 2)
        enter, leave = _towards(corner, before, radius), _towards(corner, after, radius)
        parts.append(f"L{_pair(enter)}Q{_pair(corner)} {_pair(leave)}")
    parts.append(f"L{_pair(route[-1])}")
    return "".join(parts)


def _pair(point: Point) -> str:
    return f"{number(point.x)} {number(point.y)}"


def _distance(one: Point, other: Point) -> float:
    return max(abs(one.x - other.x), abs(one.y - other.y))


def _towards(start: Point, goal: Point, length: float) -> Point:
    distance = _distance(start, goal) or 1.0
    return Point(start.x + (goal.x - start.x) * length / distance, start.y + (goal.y - start.y) * length / distance)
