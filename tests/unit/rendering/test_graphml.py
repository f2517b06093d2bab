"""GraphML: networkx reads back what was recorded."""

from __future__ import annotations

import io

import networkx

from gradviz.rendering.graphml import GraphmlRenderer
from gradviz.rendering.renderer import Subject
from tests.captures import small_capture
from tests.unit.rendering.test_json import NOTHING_DRAWN


def read_back() -> networkx.MultiDiGraph[str]:
    capture = small_capture()
    content = GraphmlRenderer().render(Subject(capture, capture.graphs[0], NOTHING_DRAWN))
    graph = networkx.read_graphml(io.BytesIO(content), force_multigraph=True)
    assert isinstance(graph, networkx.MultiDiGraph)
    return graph


def test_every_node_comes_back_with_what_is_known_of_it() -> None:
    graph, recorded = read_back(), small_capture().graphs[0]
    assert [data["grad_fn"] for _, data in graph.nodes(data=True)] == [node.name for node in recorded.nodes]
    assert graph.nodes["0"]["names"] == "model.weight" and graph.nodes["0"]["is_leaf"] is True


def test_edges_follow_the_data_and_have_names_of_their_own() -> None:
    graph = read_back()
    assert list(graph.edges()) == [("0", "1"), ("1", "2"), ("2", "3")]
    assert len({name for _, _, name in graph.edges(keys=True)}) == 3


def test_what_could_not_be_recorded_is_said() -> None:
    assert read_back().graph["notes"] == small_capture().disclosures[0]
