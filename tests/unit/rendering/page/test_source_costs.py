"""The cost of source lines, in the margin of the page's source view."""

from __future__ import annotations

from msgspec.structs import replace

from gradviz.graph.gradients import NodeRun
from gradviz.rendering.page.source_costs import page_costs
from tests.unit.analysis.memory_graphs import relu_and_square


def test_a_line_costs_what_it_keeps_first_and_the_time_of_its_nodes_in_backward() -> None:
    graph = relu_and_square()
    ran = tuple(replace(node, run=NodeRun(node.id, seconds=0.25)) for node in graph.nodes)

    first, second = page_costs(replace(graph, nodes=ran))

    assert (first.line, first.bytes, first.seconds) == (3, 800, 0.5)
    assert (second.line, second.bytes, second.seconds) == (4, 0, 0.25)
