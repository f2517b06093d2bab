"""The treemap: areas are bytes, and a tooltip counts what is left out."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from gradviz.analysis.memory.kept_memory import memory_of
from gradviz.rendering.svg.treemap import TreemapRenderer
from tests.builders import GraphBuilder
from tests.unit.analysis.memory_graphs import relu_and_square, saved, stack_of_blocks

SVG = "{http://www.w3.org/2000/svg}"


def test_areas_are_proportional_to_bytes() -> None:
    builder = GraphBuilder()
    large, small = builder.storage(3_000_000), builder.storage(1_000_000)
    leaf = builder.leaf("w")
    builder.operation("Exp", leaf, saved=[saved("result", large, 3_000_000)])
    builder.root(builder.operation("Tanh", leaf, saved=[saved("result", small, 1_000_000)]))
    graph = builder.build()

    svg = ElementTree.fromstring(TreemapRenderer("light").render("train.py", graph, memory_of(graph)))
    exp, tanh = (
        rect for rect in svg.iter(f"{SVG}rect") if rect.get("class") == "s" and float(rect.attrib["height"]) > 20
    )

    areas = [(float(rect.attrib["width"]) + 1) * (float(rect.attrib["height"]) + 1) for rect in (exp, tanh)]
    assert abs(areas[0] / areas[1] - 3) < 0.01


def test_inputs_have_a_colour_of_their_own_and_tooltips_name_the_line() -> None:
    graph = relu_and_square()

    picture = TreemapRenderer().render("train.py", graph, memory_of(graph))

    assert re.findall(r'<g class="input"><title>(.*?)</title>', picture) == [
        "MulBackward0.self, 400 B in 1 storage, train.py:3"
    ]


def test_modules_are_named_inside_the_modules_around_them() -> None:
    graph = stack_of_blocks(2)

    picture = TreemapRenderer().render("train.py", graph, memory_of(graph))

    assert ">h.0</text>" in picture
    assert "<title>model.h.0, 4.88 KiB in 2 storages</title>" in picture


def test_a_graph_that_keeps_nothing_is_an_empty_map() -> None:
    builder = GraphBuilder()
    builder.root(builder.operation("Sum", builder.leaf("w")))
    graph = builder.build()

    assert "0 B kept" in TreemapRenderer().render("train.py", graph, memory_of(graph))


def test_a_cell_without_words_has_a_number_in_the_list_below() -> None:
    builder = GraphBuilder()
    leaf = builder.leaf("w")
    last = builder.operation("Exp", leaf, saved=[saved("result", builder.storage(5_000_000), 5_000_000)])
    for _ in range(3):
        storage = builder.storage(4_000)
        last = builder.operation("Relu", last, saved=[saved("result", storage, 4_000)], call_site=None)
    builder.root(last)
    graph = builder.build()

    picture = TreemapRenderer().render("train.py", graph, memory_of(graph))

    assert "1  Relu.result · 11.7 KiB" in picture


def test_a_map_has_the_colours_of_kinds_and_can_be_pixels() -> None:
    graph = relu_and_square()
    renderer = TreemapRenderer("light")
    picture = renderer.render("train.py", graph, memory_of(graph))
    assert '<g class="operation category3">' in picture
    assert ">activation</text>" in picture
    assert renderer.png("train.py", graph, memory_of(graph)).startswith(b"\x89PNG")
