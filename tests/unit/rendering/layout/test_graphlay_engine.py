"""Positions: nothing overlaps, routes meet the items that they join, and sizes stay small."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from itertools import combinations, pairwise

import pytest

from gradviz.rendering.layout.graphlay_engine import lay_out
from gradviz.rendering.look.geometry import Direction, Layout, Point, Rect
from gradviz.rendering.look.node_label import NodeLabel, node_labels_of
from gradviz.view.model import View
from tests.unit.rendering import views
from tests.unit.rendering.views import Sketch

SKETCHES: list[Callable[[], Sketch]] = [
    views.tiny,
    views.perceptron,
    views.transformer_block,
    views.recurrent,
    views.gpt2_folded,
    views.resnet,
    views.many_boxes,
    views.every_role,
]


def laid_out(sketch: Sketch, direction: Direction = "TB") -> tuple[View, tuple[NodeLabel, ...], Layout]:
    view = sketch.view()
    node_labels = node_labels_of(sketch.graph(), view, tuple(sketch.texts))
    return view, node_labels, lay_out(view, node_labels, direction)


def overlap(one: Rect, other: Rect) -> bool:
    return one.x < other.right and other.x < one.right and one.y < other.bottom and other.y < one.bottom


def touches(point: Point, box: Rect) -> bool:
    slack = 1.0
    inside_x = box.x - slack <= point.x <= box.right + slack
    inside_y = box.y - slack <= point.y <= box.bottom + slack
    return inside_x and inside_y


@pytest.mark.parametrize("sketch", SKETCHES)
@pytest.mark.parametrize("direction", ["TB", "LR"])
def test_siblings_do_not_overlap(sketch: Callable[[], Sketch], direction: Direction) -> None:
    view, _, layout = laid_out(sketch(), direction)
    for siblings in view.children().values():
        for one, other in combinations(siblings, 2):
            assert not overlap(layout.boxes[one.id], layout.boxes[other.id]), (one, other)


def test_without_graphlay_everything_is_laid_out_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "graphlay", None)
    for sketch in SKETCHES:
        test_siblings_do_not_overlap(sketch, "TB")
        test_everything_lies_inside_its_box_and_the_picture(sketch, "LR")
        test_every_route_runs_from_its_source_to_its_target(sketch, "TB")
    assert "simpler layout" in laid_out(views.tiny())[2].notes[0]


@pytest.mark.parametrize("sketch", SKETCHES)
@pytest.mark.parametrize("direction", ["TB", "LR"])
def test_everything_lies_inside_its_box_and_the_picture(sketch: Callable[[], Sketch], direction: Direction) -> None:
    view, _, layout = laid_out(sketch(), direction)
    page = Rect(0, 0, layout.width, layout.height)
    for item in view.items:
        outer, inner = page if item.parent is None else layout.boxes[item.parent], layout.boxes[item.id]
        assert touches(Point(inner.x, inner.y), outer) and touches(Point(inner.right, inner.bottom), outer)
    assert all(touches(point, page) for route in layout.routes for point in route)


@pytest.mark.parametrize("sketch", SKETCHES)
@pytest.mark.parametrize("direction", ["TB", "LR"])
def test_every_route_runs_from_its_source_to_its_target(sketch: Callable[[], Sketch], direction: Direction) -> None:
    view, _, layout = laid_out(sketch(), direction)
    for link, route in zip(view.links, layout.routes, strict=True):
        assert touches(route[0], layout.boxes[link.source]), link
        assert touches(route[-1], layout.boxes[link.target]), link


@pytest.mark.parametrize("sketch", SKETCHES)
def test_routes_have_only_right_angles(sketch: Callable[[], Sketch]) -> None:
    _, _, layout = laid_out(sketch())
    for route in layout.routes:
        assert all(a.x == b.x or a.y == b.y for a, b in pairwise(route)), route


@pytest.mark.parametrize("sketch", SKETCHES)
def test_every_item_is_large_enough_for_its_words(sketch: Callable[[], Sketch]) -> None:
    _, node_labels, layout = laid_out(sketch())
    for node_label, box in zip(node_labels, layout.boxes, strict=True):
        assert box.width >= node_label.width - 0.1 and box.height >= node_label.height - 0.1


@pytest.mark.parametrize("sketch", [views.transformer_block, views.resnet])
def test_the_same_view_gives_the_same_layout(sketch: Callable[[], Sketch]) -> None:
    assert laid_out(sketch())[2] == laid_out(sketch())[2]


def test_the_main_column_of_a_transformer_block_is_straight() -> None:
    sketch = views.transformer_block()
    _, _, layout = laid_out(sketch)
    column = {"embedding", "layer_norm", "sdpa", "transpose", "add", "gelu", "sum", "loss"}
    middles = {
        layout.boxes[item.id].center.x
        for item, text in zip(sketch.items, sketch.texts, strict=True)
        if text.title in column
    }
    assert max(middles) - min(middles) < 1.0


def test_a_parameter_is_beside_its_user_and_costs_no_height() -> None:
    sketch = Sketch()
    data = sketch.linear(sketch.input("x"))
    sketch.root("loss", data)
    _, _, layout = laid_out(sketch)
    weight, bias = (layout.boxes[item.id] for item in sketch.items if sketch.texts[item.id].title in ("weight", "bias"))
    user = layout.boxes[data]
    assert weight.right < user.x and bias.x > user.right
    assert user.y <= weight.center.y <= user.bottom and user.y <= bias.center.y <= user.bottom


def test_the_inputs_of_the_first_operation_are_above_it() -> None:
    sketch = views.tiny()
    _, _, layout = laid_out(sketch)
    assert layout.boxes[0].bottom < layout.boxes[2].y and layout.boxes[1].bottom < layout.boxes[2].y


def test_equal_boxes_get_equal_insides() -> None:
    view, _, layout = laid_out(views.perceptron())
    first, second = [layout.boxes[item.id] for item in view.items if item.is_open][:2]
    assert (first.width, first.height) == (second.width, second.height)


def test_a_folded_gpt2_fits_on_one_screen() -> None:
    _, _, layout = laid_out(views.gpt2_folded())
    assert layout.height < 800 and layout.width < 1200


def test_links_that_leave_one_box_and_enter_another_meet_at_the_borders() -> None:
    sketch = Sketch()
    with sketch.box("encoder"):
        encoded = sketch.op("relu", sketch.input("x"))
    with sketch.box("decoder"), sketch.box("inner"):
        decoded = sketch.op("tanh", encoded)
    sketch.root("loss", decoded)
    view, _, layout = laid_out(sketch)
    route = next(
        route
        for link, route in zip(view.links, layout.routes, strict=True)
        if link.source == encoded and link.target == decoded
    )
    assert route[0].y == layout.boxes[encoded].bottom and route[-1].y == layout.boxes[decoded].y


def chain(length: int) -> Sketch:
    sketch = Sketch()
    data = sketch.input("x")
    for _ in range(length):
        data = sketch.op("mul", data)
    return sketch


def fan(width: int) -> Sketch:
    sketch = Sketch()
    sketch.op("stack", *[sketch.op("abs", sketch.input("x")) for _ in range(width)])
    return sketch


def shared_leaf(uses: int) -> Sketch:
    sketch = Sketch()
    weight, data = sketch.parameter("weight"), sketch.input("x")
    for _ in range(uses):
        data = sketch.op("mm", data, weight)
    return sketch


def tangle(size: int) -> Sketch:
    generator, sketch = random.Random(1), Sketch()
    made = [sketch.input("x")]
    for _ in range(size):
        made.append(sketch.op("add", *sorted({generator.choice(made) for _ in range(3)})))
    return sketch


@pytest.mark.parametrize(
    "sketch", [lambda: chain(3_000), lambda: fan(600), lambda: shared_leaf(400), lambda: tangle(500)]
)
def test_a_box_that_is_too_large_for_the_engine_gets_a_simpler_layout_and_a_note(sketch: Callable[[], Sketch]) -> None:
    view, _, layout = laid_out(sketch())
    assert len(layout.notes) == 1 and "simpler layout" in layout.notes[0]
    assert not any(overlap(layout.boxes[a.id], layout.boxes[b.id]) for a, b in pairwise(view.items))
    for link, route in zip(view.links, layout.routes, strict=True):
        assert touches(route[0], layout.boxes[link.source]) and touches(route[-1], layout.boxes[link.target])


def test_many_boxes_that_are_too_large_are_counted_in_one_note() -> None:
    sketch = Sketch()
    for number in range(6):
        with sketch.box(f"part{number}"):
            sketch.op("stack", *[sketch.op("abs" + "x" * number, sketch.input("x")) for _ in range(300)])
    assert laid_out(sketch)[2].notes[-1] == "So are 3 more boxes."


def test_boxes_may_nest_deeper_than_the_recursion_limit() -> None:
    sketch = Sketch()
    data = sketch.input("x")
    open_boxes = []
    for number in range(1_500):
        open_boxes.append(sketch.box(f"{number}"))
        open_boxes[-1].__enter__()
        data = sketch.op("relu", data)
    for box in reversed(open_boxes):
        box.__exit__(None, None, None)
    sketch.root("loss", data)
    view, _, layout = laid_out(sketch)
    assert len(layout.boxes) == len(view.items)


def test_links_that_form_a_cycle_are_drawn() -> None:
    sketch = Sketch()
    first = sketch.op("one")
    second = sketch.op("two", first)
    sketch.links.append(type(sketch.links[0])(second, first))
    _, _, layout = laid_out(sketch)
    assert all(len(route) >= 2 for route in layout.routes)


def test_an_empty_view_has_a_layout() -> None:
    assert laid_out(Sketch())[2].boxes == ()


def test_equal_siblings_are_in_the_order_in_which_they_were_made() -> None:
    sketch = views.transformer_block()
    _, _, layout = laid_out(sketch)
    places = {text.title: layout.boxes[number].x for number, text in enumerate(sketch.texts)}
    assert places["q"] < places["k"] < places["v"]


def test_rows_of_equal_siblings_keep_their_wires() -> None:
    sketch = Sketch()
    stem = sketch.op("stem", sketch.input("x"))
    first = [sketch.op("mul", stem) for _ in range(3)]
    second = [sketch.op("add", *first) for _ in range(3)]
    sketch.op("cat", *second)
    view, _, layout = laid_out(sketch)
    for link, route in zip(view.links, layout.routes, strict=True):
        assert touches(route[0], layout.boxes[link.source]) and touches(route[-1], layout.boxes[link.target])


def test_two_inputs_are_symmetric_above_their_operation() -> None:
    sketch = Sketch()
    product = sketch.op("mul", sketch.input("x", "[1]"), sketch.input("y", "[1]"), subtitle="MulBackward0")
    _, _, layout = laid_out(sketch)
    left, right = layout.boxes[0].center.x, layout.boxes[1].center.x
    assert abs((left + right) / 2 - layout.boxes[product].center.x) < 1.0


def test_the_wires_of_a_shared_leaf_share_a_lane_in_the_simpler_layout() -> None:
    _, _, layout = laid_out(shared_leaf(400))
    columns = {point.x for route in layout.routes for point in route}
    assert len(columns) < 10 and layout.width < 500
