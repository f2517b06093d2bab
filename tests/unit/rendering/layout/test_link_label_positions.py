"""Where the words of links are drawn."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from gradviz.rendering.layout.link_label_positions import LinkLabel, find_link_label_positions
from gradviz.rendering.layout.title_positions import header_starts
from gradviz.rendering.look.geometry import Direction, Layout, Point, Rect
from tests.unit.rendering.layout.random_sketches import random_sketch
from tests.unit.rendering.layout.test_graphlay_engine import laid_out, overlap
from tests.unit.rendering.views import Sketch


def labelled(sketch: Sketch, words: list[str], direction: Direction = "TB") -> tuple[list[LinkLabel], Layout]:
    view, node_labels, layout = laid_out(sketch, direction)
    return find_link_label_positions(view, node_labels, layout, words, header_starts(view, node_labels, layout)), layout


def runs_through(start: Point, end: Point, box: Rect) -> bool:
    return overlap(Rect(min(start.x, end.x), min(start.y, end.y), abs(start.x - end.x), abs(start.y - end.y)), box)


@pytest.mark.parametrize("direction", ["TB", "LR"])
@pytest.mark.parametrize("seed", range(12))
def test_no_label_touches_an_item_a_wire_or_another_label(seed: int, direction: Direction) -> None:
    sketch = random_sketch(seed)
    labels, layout = labelled(sketch, [f"[{link.target}, 64]" for link in sketch.links], direction)
    assert labels
    closed = [layout.boxes[item.id] for item in sketch.items if not item.is_open]
    wires = [stretch for route in layout.routes for stretch in pairwise(route)]
    for label in labels:
        assert not any(overlap(label.box, box) for box in closed)
        assert not any(runs_through(start, end, label.box) for start, end in wires)
    assert not any(overlap(one.box, other.box) for one, other in combinations(labels, 2))


def test_a_label_is_beside_its_own_wire() -> None:
    sketch = Sketch()
    mul = sketch.op("mul")
    sketch.op("sum", mul)
    (label,), layout = labelled(sketch, ["[2, 12]"])
    ((start, end),) = pairwise(layout.routes[0])
    assert start.y < label.box.y and label.box.bottom < end.y and 0 < label.box.x - start.x < 10


def test_a_label_without_space_is_left_out() -> None:
    sketch = Sketch()
    sketch.linear(sketch.op("x"))
    beside = [number for number, link in enumerate(sketch.links) if sketch.texts[link.source].title == "weight"]
    labels, _ = labelled(sketch, ["a shape that is long" if link in beside else "" for link in range(3)])
    assert labels == []


def test_a_graph_of_thousands_of_labelled_links_leaves_most_of_them_out() -> None:
    sketch = Sketch()
    unbind = sketch.op("unbind")
    sketch.op("cat", *(sketch.op("sin", unbind) for _ in range(600)))
    labels, _ = labelled(sketch, [f"output {number}" for number in range(len(sketch.links))])
    assert len(labels) < 200
