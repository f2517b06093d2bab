"""Queries of a graph from Python."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import networkx
import pytest

from gradviz.errors import BadInput, MissingDependency
from gradviz.graph.model import Node
from gradviz.public_graph import public_graph
from tests.builders import graph_of, transformer


def names(nodes: Sequence[Node]) -> list[str]:
    return [node.names[0] if node.is_leaf else node.name.removesuffix("Backward0") for node in nodes]


DIAMOND = "w -> Mul -> Exp -> Add -> loss; Mul -> Sin -> Add; x -> Mul"


def test_ancestors_and_descendants_leave_out_the_node_itself_and_take_it_or_its_number() -> None:
    graph = public_graph(graph_of(DIAMOND))
    (mul,) = graph.find("Mul")
    assert names(graph.ancestors(mul)) == ["w", "x"]
    assert names(graph.descendants(mul)) == ["Exp", "Sin", "Add"]
    assert graph.ancestors(mul.id) == graph.ancestors(mul)


def test_leaves_and_parameters_are_distinguished() -> None:
    graph = public_graph(graph_of(DIAMOND))
    assert (names(graph.leaves), names(graph.parameters)) == (["w", "x"], ["w"])


def test_finding_nothing_is_no_error() -> None:
    assert public_graph(graph_of(DIAMOND)).find("Softmax") == ()


def test_a_node_of_another_graph_is_refused() -> None:
    with pytest.raises(BadInput, match=r"node 2 \(MulBackward0\) belongs to another graph; here it is "):
        public_graph(transformer(1)).ancestors(public_graph(graph_of(DIAMOND)).find("Mul")[0])
    with pytest.raises(BadInput, match="there is no node 99; this graph has 6, counted from 0"):
        public_graph(graph_of(DIAMOND)).descendants(99)
    with pytest.raises(BadInput, match="there is no node -1; this graph has 6, counted from 0"):
        public_graph(graph_of(DIAMOND)).descendants(-1)
    with pytest.raises(BadInput, match=r"a str is neither a node nor the id of a node; graph.find\(name\) returns"):
        public_graph(graph_of(DIAMOND)).ancestors("Mul")  # type: ignore[arg-type]


def test_networkx_finds_the_same_ancestors_and_every_edge() -> None:
    graph = public_graph(transformer(2))
    exported = graph.to_networkx()
    for node in graph.nodes:
        assert networkx.ancestors(exported, node.id) == {ancestor.id for ancestor in graph.ancestors(node)}
    assert exported.number_of_edges() == sum(edge is not None for node in graph.nodes for edge in node.edges)


def test_networkx_keeps_both_edges_of_a_square_and_plain_attributes_only() -> None:
    exported = public_graph(graph_of("w -> Mul -> loss; w -> Mul; {x} -> Mul")).to_networkx()
    assert exported.number_of_edges(0, 1) == 2
    assert exported.nodes[1] == {
        "label": "mul", "grad_fn": "MulBackward0", "kind": "operation", "is_leaf": False, "sequence_nr": 1,
        "shape": "[2, 3]", "dtype": "float32", "device": "cpu", "constants": "x", "root": "loss",
    }  # fmt: skip
    assert exported.edges[0, 1, 1] == {
        "position": 1, "output_nr": 0, "shape": "[2, 3]", "dtype": "float32", "device": "cpu",
    }  # fmt: skip
    assert exported.graph == {"roots": "loss", "backward": 1, "function": "backward"}


def test_without_networkx_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingDependency, match="networkx is not installed; pip install networkx"):
        public_graph(graph_of(DIAMOND)).to_networkx()
