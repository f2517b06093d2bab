"""Wires make no small steps where they can go straight on."""

from __future__ import annotations

from gradviz.rendering.layout.straightening import straightened
from gradviz.rendering.look.geometry import Layout, Point, Rect, Route
from gradviz.view.model import Item, Link, View


def _route_of(route: Route, *, width: float = 100, others: tuple[tuple[Rect, Route], ...] = ()) -> Route:
    """The route between two items once it is straightened, with other items and their wires to the same target."""
    boxes = (Rect(0, 0, 100, 40), Rect(20, 200, width, 40), *(box for box, _ in others))
    items = tuple(Item(number, "node", node=number, nodes=(number,)) for number in range(len(boxes)))
    links = (Link(0, 1), *(Link(number, 1) for number in range(2, len(boxes))))
    layout = Layout(500, 500, boxes, (route, *(other for _, other in others)))
    return straightened(View(items, links), layout).routes[0]


STEP = (Point(50, 40), Point(50, 120), Point(62, 120), Point(62, 200))
STRAIGHT = (Point(50, 40), Point(50, 200))


def test_a_wire_that_moves_aside_before_an_item_goes_straight_on() -> None:
    assert _route_of(STEP) == STRAIGHT


def test_a_wire_does_not_miss_its_item_for_that() -> None:
    assert _route_of((*STEP[:2], Point(35, 120), Point(35, 200)), width=20) != STRAIGHT


def test_a_wide_turn_stays() -> None:
    turn = (Point(50, 40), Point(50, 120), Point(90, 120), Point(90, 200))
    assert _route_of(turn) == turn


def test_a_wire_stays_apart_from_others() -> None:
    beside = (Rect(50, 130, 12, 10), (Point(56, 140), Point(56, 200)))
    assert _route_of(STEP, others=(beside,)) == STEP


def test_a_step_before_a_turn_is_left_out_too() -> None:
    route = (Point(50, 40), Point(50, 100), Point(53, 100), Point(53, 120), Point(110, 120), Point(110, 200))
    assert _route_of(route) == (Point(50, 40), Point(50, 120), Point(110, 120), Point(110, 200))
