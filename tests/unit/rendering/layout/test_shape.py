"""Pictures are folded so that they fit a page or a screen, and stay without flaws."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gradviz.rendering.layout.columns import Fold
from gradviz.rendering.layout.graphlay_engine import LayoutEngine, lay_out
from gradviz.rendering.layout.nested_layout import NestedView
from gradviz.rendering.layout.shape import FRAME_HEIGHT, Shape
from gradviz.rendering.look.geometry import Direction, Layout, transposed
from gradviz.rendering.look.node_label import NodeLabel, node_labels_of
from gradviz.view.model import View
from tests.unit.rendering.layout.flaws import crossings_in
from tests.unit.rendering.layout.random_sketches import random_sketch
from tests.unit.rendering.layout.test_graphlay_engine import overlap, touches
from tests.unit.rendering.views import Sketch


def labelled(sketch: Sketch) -> tuple[View, tuple[NodeLabel, ...]]:
    view = sketch.view()
    return view, node_labels_of(sketch.graph(), view, tuple(sketch.texts))


def drawn(sketch: Sketch, shape: Shape = "auto", direction: Direction = "TB") -> Layout:
    return lay_out(*labelled(sketch), direction, shape)


def chain(length: int) -> Sketch:
    sketch = Sketch()
    last = sketch.input("x")
    for number in range(length):
        last = sketch.op(f"op{number}", last, shape="[8, 64]")
    sketch.root("loss", last)
    return sketch


def network_with_skips(steps: int, *, nested: bool) -> Sketch:
    """Down and up again; each step up takes what the step down of the same size, or of the same number, gave."""
    sketch = Sketch()
    last, kept = sketch.input("x"), []
    for number in range(steps):
        last = sketch.op(f"down{number}", last)
        kept.append(last)
        last = sketch.op("pool", last)
    for number in range(steps):
        last = sketch.op("cat", sketch.op("grow", last), kept.pop() if nested else kept.pop(0))
        last = sketch.op(f"up{number}", last)
    sketch.root("loss", last)
    return sketch


def ratio(layout: Layout) -> float:
    """Height over width of the whole picture, with what is above and below the graph."""
    return (layout.height + FRAME_HEIGHT) / layout.width


def item_called(sketch: Sketch, title: str) -> int:
    return next(number for number, text in enumerate(sketch.texts) if text.title == title)


@pytest.mark.parametrize("length", [20, 40, 60])
def test_a_long_chain_is_laid_in_columns_that_are_read_downwards(length: int) -> None:
    sketch = chain(length)
    straight, folded = drawn(sketch, "tall"), drawn(sketch)
    assert straight.height > 3 * straight.width
    assert 0.5 < ratio(folded) < 2.15
    operations = [folded.boxes[item_called(sketch, f"op{number}")] for number in range(length)]
    for above, below in pairwise(operations):
        assert below.y >= above.bottom or below.x >= above.right, "the next one is below, or in the next column"


def test_a_picture_that_fits_is_not_folded() -> None:
    assert drawn(chain(4)) == drawn(chain(4), "tall")


def test_shapes_differ_in_the_direction_that_they_say() -> None:
    tall, page, wide = (ratio(drawn(chain(30), shape)) for shape in ("tall", "page", "wide"))
    assert tall > page > 1.1 > 0.8 > wide


def test_a_long_picture_from_left_to_right_continues_in_the_next_line() -> None:
    sketch = chain(30)
    folded = drawn(sketch, direction="LR")
    assert 0.48 < ratio(folded) < 1
    first, last = (folded.boxes[item_called(sketch, name)] for name in ("op0", "op29"))
    assert last.y > first.bottom


def test_skips_that_pair_up_make_a_u_whose_second_column_is_read_upwards() -> None:
    sketch = network_with_skips(4, nested=True)
    layout = drawn(sketch)
    downs = [layout.boxes[item_called(sketch, f"down{number}")] for number in range(4)]
    ups = [layout.boxes[item_called(sketch, f"up{number}")] for number in range(4)]
    assert [box.y for box in downs] == sorted(box.y for box in downs)
    assert [box.y for box in ups] == sorted((box.y for box in ups), reverse=True)
    assert min(box.x for box in ups) > max(box.right for box in downs)
    assert ratio(layout) < 2.7, "its columns are apart"
    assert list(crossings_in(*labelled(sketch), layout)) == []


def test_skips_that_cross_make_no_u() -> None:
    sketch = network_with_skips(4, nested=False)
    layout = drawn(sketch)
    ups = [layout.boxes[item_called(sketch, f"up{number}")].y for number in range(4)]
    assert ups != sorted(ups, reverse=True)


def test_many_boxes_side_by_side_are_broken_into_rows() -> None:
    sketch = Sketch()
    stem = sketch.op("stem", sketch.input("x"))
    branches = []
    for number in range(12):
        with sketch.box(f"branch{number}", subtitle="Linear"):
            branches.append(sketch.linear(stem))
    sketch.root("loss", sketch.op("cat", *branches))
    straight, stacked = drawn(sketch, "tall"), drawn(sketch)
    assert straight.width > 4 * straight.height
    assert stacked.width < 2.5 * stacked.height
    assert list(crossings_in(*labelled(sketch), stacked)) == []


def test_branches_stand_in_the_order_in_which_they_were_made_whatever_their_width() -> None:
    sketch = Sketch()
    stem = sketch.op("stem", sketch.input("x"))
    names = [f"branch{'_' * (number % 3)}{number}" for number in range(6)]
    ends = [sketch.op(f"end{number}", sketch.op(name, stem)) for number, name in enumerate(names)]
    sketch.root("loss", sketch.op("cat", *ends))
    layout = drawn(sketch, "tall")
    for row in (names, [f"end{number}" for number in range(6)]):
        boxes = [layout.boxes[item_called(sketch, name)] for name in row]
        assert [box.x for box in boxes] == sorted(box.x for box in boxes)
        assert len({box.y for box in boxes}) == 1
    assert list(crossings_in(*labelled(sketch), layout)) == []


def test_columns_have_about_the_same_height() -> None:
    sketch = Sketch()
    last = sketch.op("first", sketch.input("x"))
    with sketch.box("block", subtitle="Block"):
        for number in range(24):
            last = sketch.op(f"op{number}", last, shape="[8, 64]")
    sketch.root("loss", sketch.op("last", last))
    layout = drawn(sketch)
    columns: dict[float, float] = {}
    for number in range(24):
        box = layout.boxes[item_called(sketch, f"op{number}")]
        columns[box.center.x] = columns.get(box.center.x, 0.0) + box.height
    assert len(columns) > 1
    assert min(columns.values()) > 0.7 * max(columns.values())


@pytest.mark.parametrize("count", [15, 26, 100, 300])
def test_many_leaves_of_one_operation_stand_in_stacks(count: int) -> None:
    sketch = Sketch()
    sketch.root("loss", sketch.op("compiled", *(sketch.parameter(f"layer.{number}.weight") for number in range(count))))
    layout = drawn(sketch, "tall")
    assert layout.width < 2.5 * layout.height + 300
    assert list(crossings_in(*labelled(sketch), layout)) == []


@pytest.mark.parametrize("fold", [Fold(2), Fold(3), Fold(2, is_u=True)], ids=["two", "three", "u"])
@pytest.mark.parametrize("direction", ["TB", "LR"])
@pytest.mark.parametrize("seed", range(12))
def test_every_fold_leaves_titles_boxes_and_ends_of_wires_as_they_should_be(
    seed: int, direction: Direction, fold: Fold
) -> None:
    view, labels = labelled(random_sketch(seed))
    nested, engine = NestedView(view, labels, direction), LayoutEngine()
    nested.folds.update(dict.fromkeys(nested.open_boxes(), fold))
    for box in nested.boxes_innermost_first():
        engine.lay_out(nested, box)
    layout = transposed(nested.layout()) if direction == "LR" else nested.layout()
    assert list(crossings_in(view, labels, layout)) == []
    for siblings in view.children().values():
        boxes = [layout.boxes[item.id] for item in siblings]
        assert not any(overlap(one, other) for number, one in enumerate(boxes) for other in boxes[:number])
    for link, route in zip(view.links, layout.routes, strict=True):
        assert touches(route[0], layout.boxes[link.source]) and touches(route[-1], layout.boxes[link.target])
