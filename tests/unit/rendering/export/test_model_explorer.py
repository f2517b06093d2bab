"""Model Explorer's JSON: the names and nesting of its graph builder, and layers that are module calls."""

from __future__ import annotations

import json
from typing import Any

from gradviz.capture.capture import Capture, Program
from gradviz.graph.model import Graph
from gradviz.rendering.export.model_explorer import ModelExplorerRenderer
from gradviz.rendering.formats import Subject
from tests.builders import GraphBuilder
from tests.captures import small_capture
from tests.unit.rendering.export.test_json import NOTHING_DRAWN

# Of `graph_builder.py` in ai-edge-model-explorer 0.1.34.
NODE_FIELDS = {
    "id", "label", "namespace", "subgraphIds", "attrs", "incomingEdges", "outputsMetadata", "inputsMetadata", "style",
    "config",
}  # fmt: skip


def collection(graph: Graph, capture: Capture | None = None) -> Any:
    subject = Subject(capture or Capture(Program("train.py"), (graph,)), graph, NOTHING_DRAWN)
    return json.loads(ModelExplorerRenderer().render(subject))


def nodes(graph: Graph) -> dict[str, Any]:
    (only,) = collection(graph)["graphs"]
    return {node["id"]: node for node in only["nodes"]}


def test_the_form_is_that_of_a_graph_collection() -> None:
    capture = small_capture()
    found = collection(capture.graphs[0], capture)
    assert set(found) == {"label", "graphs"}
    (graph,) = found["graphs"]
    for node in graph["nodes"]:
        assert set(node) <= NODE_FIELDS and isinstance(node["namespace"], str)
        assert all(isinstance(entry["value"], str) for entry in node.get("attrs", []))


def test_edges_join_existing_nodes_at_the_right_inputs() -> None:
    found = nodes(small_capture().graphs[0])
    assert all(edge["sourceNodeId"] in found for node in found.values() for edge in node.get("incomingEdges", []))
    assert found["n2"]["incomingEdges"] == [
        {"sourceNodeId": "n1", "sourceNodeOutputId": "0", "targetNodeInputId": "1"},
        {"sourceNodeId": "c0", "sourceNodeOutputId": "0", "targetNodeInputId": "2"},
    ]
    assert found["r0"]["incomingEdges"][0]["sourceNodeId"] == "n3"


def test_layers_are_module_calls_and_a_second_call_is_another_layer() -> None:
    builder = GraphBuilder()
    outer = builder.scope("model", "Net")
    first = builder.scope("model.h.0", "Block", outer)
    second = builder.scope("model.h.0", "Block", outer)
    weight, shared = builder.leaf("model.h.0.weight"), builder.leaf("model.scale")
    one = builder.operation("Mul", weight, shared, scope=first)
    builder.root(builder.operation("Add", one, shared, scope=second))
    found = nodes(builder.build())
    assert found["n2"]["namespace"] == "model/h/0"
    assert found["n3"]["namespace"] == "model/h/0 (call 2)"
    assert found["n0"]["namespace"] == "model/h/0", "a leaf lies beside its only user"
    assert found["n1"]["namespace"] == "model/h", "a shared leaf lies in what its users have in common"


def test_the_file_says_what_could_not_be_recorded() -> None:
    capture = small_capture()
    facts = collection(capture.graphs[0], capture)["graphs"][0]["groupNodeAttributes"][""]
    assert facts["note 1"] == capture.disclosures[0] and "ValueError" in facts["error"]
