"""Walking graphs without recursion."""

from __future__ import annotations

from gradviz.graph.model import Edge, Graph, Node
from gradviz.graph.traversal import ancestors, behind_views, consumers, depths, descendants, topological_order
from tests.builders import GraphBuilder, chain_graph, graph_of


def test_ancestors_are_the_nodes_that_a_node_was_computed_from() -> None:
    graph = graph_of("w -> Mul -> Sum -> loss; x -> Mul; v -> Exp -> out")
    names = {graph.nodes[node].name for node in ancestors(graph, [graph.roots[0].node])}
    assert names == {"SumBackward0", "MulBackward0", "torch::autograd::AccumulateGrad"}


def test_descendants_are_the_nodes_computed_from_a_node() -> None:
    graph = graph_of("w -> Mul -> Sum -> loss; x -> Exp -> Sum")
    assert {graph.nodes[node].name for node in descendants(graph, [0])} >= {"MulBackward0", "SumBackward0"}
    assert all(graph.nodes[node].name != "ExpBackward0" for node in descendants(graph, [0]))


def test_consumers_are_listed_once_for_each_edge() -> None:
    graph = graph_of("w -> Mul -> loss; w -> Mul")
    assert consumers(graph)[0] == [1, 1]


def test_the_order_follows_the_data_also_where_threads_numbered_the_nodes_otherwise() -> None:
    nodes = (
        Node(0, "SumBackward0", edges=(Edge(2),)),
        Node(1, "Leaf", "input"),
        Node(2, "ExpBackward0", edges=(Edge(1),)),
    )
    assert list(topological_order(Graph(nodes=nodes))) == [1, 2, 0]


def test_behind_views_is_what_made_the_memory_and_an_operation_made_its_own() -> None:
    builder = GraphBuilder()
    made = builder.operation("Exp", builder.operation("Sin", builder.leaf("w")))
    view = builder.operation("View", builder.operation("T", (made, 0), kind="view"), kind="view")
    several = builder.operation("Stack", view, made, kind="view")
    builder.root(several)
    graph = builder.build()
    assert behind_views(graph, view) == (made, 0)
    assert behind_views(graph, made, 1) == (made, 1)
    assert behind_views(graph, several) == (several, 0)


def test_depth_is_the_longest_path_from_the_leaves_and_needs_no_recursion() -> None:
    graph = chain_graph(20_000)
    assert depths(graph)[-1] == 20_002
    assert len(ancestors(graph, [graph.roots[0].node])) == 20_003
