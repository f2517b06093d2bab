"""The title of an open box can be read whatever runs through its upper border."""

from __future__ import annotations

from itertools import pairwise

from gradviz.rendering.layout.graphlay_engine import lay_out
from gradviz.rendering.layout.title_positions import CLEARANCE, SIDE, header_starts
from gradviz.rendering.look.geometry import Layout, Point, Rect, Route
from gradviz.rendering.look.node_label import HEADER_HEIGHT, NodeLabel, TextLine, header_width, node_labels_of
from gradviz.view.model import Item, Link, View
from tests.unit.rendering.views import Sketch

OUTSIDE, BOX, INSIDE = range(3)
VIEW = View(
    (Item(0, "node", node=0), Item(1, "box", is_open=True), Item(2, "node", parent=1, node=1)), (Link(OUTSIDE, INSIDE),)
)
TITLE = NodeLabel("box", 80, HEADER_HEIGHT, (TextLine("a title", 18, "title"),), is_open=True)
NODE = NodeLabel("operation", 60, 30, (TextLine("mul", 18, "title"),))


def start_of_title(*route: tuple[float, float], width: float = 300) -> float:
    """Where the title of a box at x 0 and y 100 starts, with one link along `route`."""
    boxes = (Rect(100, 0, 60, 30), Rect(0, 100, width, 200), Rect(100, 200, 60, 30))
    points: Route = tuple(Point(x, y) for x, y in route)
    return header_starts(VIEW, (NODE, TITLE, NODE), Layout(width, 300, boxes, (points,)))[BOX]


def test_a_title_is_at_the_left_if_no_wire_is_there() -> None:
    assert start_of_title((200, 30), (200, 200)) == SIDE


def test_a_title_moves_aside_for_a_wire_that_enters_there() -> None:
    assert start_of_title((30, 30), (30, 200)) == 30 + CLEARANCE


def test_a_title_starts_after_a_wire_that_turns_beside_it() -> None:
    assert start_of_title((30, 30), (30, 115), (130, 115), (130, 200)) == 130 + CLEARANCE


def test_a_wire_below_the_title_does_not_matter() -> None:
    assert start_of_title((20, 160), (20, 200)) == SIDE


def test_a_title_without_space_elsewhere_stays() -> None:
    assert start_of_title((30, 30), (30, 200), width=70) == SIDE


def test_a_wire_to_the_left_runs_below_the_title() -> None:
    sketch = Sketch()
    given = sketch.op("pow", sketch.input("x"))
    with sketch.box("act", subtitle="NewGELUActivation") as box:
        half = sketch.op("mul", given)
        cube = sketch.op("tanh", sketch.op("mul", sketch.op("pow", given)))
        last = sketch.op("mul", half, cube)
    sketch.root("loss", last)
    view = sketch.view()
    node_labels = node_labels_of(sketch.graph(), view, tuple(sketch.texts))
    layout = lay_out(view, node_labels)
    start, place = header_starts(view, node_labels, layout)[box], layout.boxes[box]
    title = Rect(start, place.y + 6, header_width(node_labels[box]), 15)
    assert not [route for route in layout.routes if _crosses(route, title)]


def _crosses(route: Route, title: Rect) -> bool:
    return any(
        min(a.x, b.x) < title.right
        and max(a.x, b.x) > title.x
        and min(a.y, b.y) < title.bottom
        and max(a.y, b.y) > title.y
        for a, b in pairwise(route)
    )
