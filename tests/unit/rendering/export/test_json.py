"""The JSON of a graph has everything that was recorded, as its schema describes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Graph, Node
from gradviz.rendering.export.json import GraphDocument, JsonRenderer, graph_schema
from gradviz.rendering.formats import Subject, format_named
from gradviz.view.model import View
from tests.captures import small_capture

NOTHING_DRAWN = View((), ())


def rendered(graph: Graph) -> str:
    return JsonRenderer().render(Subject(small_capture(), graph, NOTHING_DRAWN))


def parsed(graph: Graph) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(rendered(graph), parse_constant=refuse)


@pytest.fixture
def graph() -> Graph:
    return small_capture().graphs[0]


def test_everything_recorded_is_in_the_file(graph: Graph) -> None:
    document = msgspec.json.decode(rendered(graph), type=GraphDocument)
    capture = small_capture()
    # Readings of an allocator differ from run to run.
    assert document.graph == replace(graph, allocators=())
    assert document.program == capture.program
    assert document.parameters == capture.parameters
    assert document.sources == capture.sources
    assert document.error == capture.error
    assert document.disclosures == capture.disclosures
    assert (document.outcome, document.backward_calls) == (capture.outcome, capture.backward_calls)


def test_the_file_says_what_it_is_and_in_which_version(graph: Graph) -> None:
    assert rendered(graph).startswith('{\n "schema": "gradviz graph",\n "version": 1,\n "program": {')


def test_the_file_ends_in_a_line_feed(graph: Graph) -> None:
    assert rendered(graph).endswith("}\n")


def test_the_same_graph_gives_the_same_text(graph: Graph) -> None:
    assert rendered(graph) == rendered(small_capture().graphs[0])


def test_every_field_is_present_even_if_it_is_empty(graph: Graph) -> None:
    calm = replace(small_capture(), error=None, disclosures=(), parameters=(), sources={})
    document = json.loads(JsonRenderer().render(Subject(calm, graph, NOTHING_DRAWN)))
    assert set(document) == set(graph_schema()["$defs"]["GraphDocument"]["properties"])
    assert document["error"] is None


def test_infinite_attributes_are_text_and_not_null() -> None:
    node = Node(id=0, name="ClampBackward0", attributes={"min": float("-inf"), "max": 2.5, "all": [float("nan"), 1]})
    attributes = parsed(Graph(nodes=(node,)))["graph"]["nodes"][0]["attributes"]
    assert attributes == {"min": "-inf", "max": 2.5, "all": ["nan", 1]}


def test_names_in_any_script_stay_readable() -> None:
    assert '"Größe </script>"' in rendered(Graph(nodes=(Node(id=0, name="Größe </script>"),)))


def test_infinite_numbers_of_a_recorded_tensor_are_text_and_not_null() -> None:
    figures = TensorFigures(count=3, nans=1, infs=1, values=(1.5, float("nan"), float("-inf")))
    node = Node(id=0, name="LogBackward0", values=(figures,), arrived=(figures,))
    written = parsed(Graph(nodes=(node,)))["graph"]["nodes"][0]
    assert written["values"][0]["values"] == written["arrived"][0]["values"] == [1.5, "nan", "-inf"]
    assert '"nan"' in json.dumps(graph_schema()["$defs"]["TensorFigures"]["properties"]["values"])


def test_the_schema_describes_nodes_by_their_defaults() -> None:
    node = graph_schema()["$defs"]["Node"]
    assert node["required"] == ["id", "name"]
    assert node["properties"]["kind"]["default"] == "operation"


def test_the_table_of_formats_leads_to_this_renderer() -> None:
    assert isinstance(format_named("json").renderer(), JsonRenderer)
