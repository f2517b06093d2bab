"""GraphML: networkx reads back the recorded graph."""

from __future__ import annotations

import io

import networkx
from msgspec.structs import replace

from gradviz.graph.gradients import BranchShare, NodeRun, TensorFigures
from gradviz.graph.model import Graph
from gradviz.public_graph import public_graph
from gradviz.rendering.export.graphml import GraphmlRenderer
from gradviz.rendering.formats import Subject
from tests.builders import graph_of
from tests.captures import small_capture
from tests.unit.rendering.export.test_json import NOTHING_DRAWN


def read_back(graph: Graph | None = None) -> networkx.MultiDiGraph[str]:
    capture = small_capture()
    content = GraphmlRenderer().render(Subject(capture, graph or capture.graphs[0], NOTHING_DRAWN))
    made = networkx.read_graphml(io.BytesIO(content), force_multigraph=True)
    assert isinstance(made, networkx.MultiDiGraph)
    return made


def test_every_node_is_read_back_with_its_attributes() -> None:
    graph, recorded = read_back(), small_capture().graphs[0]
    assert [data["grad_fn"] for _, data in graph.nodes(data=True)] == [node.name for node in recorded.nodes]
    assert graph.nodes["0"]["names"] == "model.weight" and graph.nodes["0"]["is_leaf"] is True


def test_edges_follow_the_data_and_have_unique_ids() -> None:
    graph = read_back()
    assert list(graph.edges()) == [("0", "1"), ("1", "2"), ("2", "3")]
    assert len({name for _, _, name in graph.edges(keys=True)}) == 3


def test_the_file_says_what_could_not_be_recorded() -> None:
    assert read_back().graph["notes"] == small_capture().disclosures[0]


def test_gradients_are_attributes_of_the_edges_that_they_flowed_along() -> None:
    sent = TensorFigures(norm=0.5, count=4, zeros=1)
    broken = TensorFigures(norm=2.0, count=4, nans=1, infs=2)
    graph = graph_of("w -> Mul -> Sum -> loss; v -> Mul")
    (product,) = public_graph(graph).find("Mul")
    shares = (BranchShare(0.25, -1.0), None)
    nodes = [
        replace(node, gradients=(sent, broken), shares=shares, arrived=(sent,), run=NodeRun(1))
        if node == product
        else node
        for node in graph.nodes
    ]
    made = read_back(replace(graph, nodes=tuple(nodes)))
    first, second = (data for _, target, data in made.edges(data=True) if target == str(product.id))
    assert (first["gradient"], first["gradient_norm"], first["gradient_zeros"]) == ("finite", 0.5, 1)
    assert (first["gradient_share"], first["gradient_cosine"]) == (0.25, -1.0)
    assert second["gradient"] == "NaN, Inf" and "gradient_share" not in second
    assert made.nodes[str(product.id)]["backward_order"] == 1
