"""The nodes where gradients become zero, NaN or Inf, and not those that only pass it on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from gradviz.analysis.numbers.gradient_origins import (
    GradientOrigin,
    find_gradient_origins,
    node_where_paths_split,
    senders,
)
from gradviz.graph.gradients import NodeRun, TensorFigures
from gradviz.graph.model import Graph
from tests.builders import graph_of

FINE = TensorFigures(norm=1.0, count=6)
ZERO = TensorFigures(norm=0.0, count=6, zeros=6)
NAN = TensorFigures(norm=1.0, count=6, nans=1)
INF = TensorFigures(norm=1.0, count=6, infs=6)
NOTHING = TensorFigures(is_undefined=True)
UNKNOWN = TensorFigures(unmeasured="sparse")

Flow = Mapping[str, tuple[TensorFigures, Sequence[TensorFigures]]]


def with_flow(text: str, flow: Flow) -> Graph:
    """`flow` has what arrived at each leaf or operation, and what it sent."""
    graph = graph_of(text)
    nodes = list(graph.nodes)
    for name, (arrived, sent) in flow.items():
        (node,) = (node for node in nodes if name in node.names or node.name == f"{name}Backward0")
        nodes[node.id] = replace(node, arrived=(arrived,), gradients=tuple(sent), run=NodeRun(0))
    return replace(graph, nodes=tuple(nodes))


def by_node(text: str, flow: Flow) -> dict[str, GradientOrigin]:
    graph = with_flow(text, flow)
    gradient_origins = find_gradient_origins(graph).by_node
    return {
        (graph.nodes[node].names or (graph.nodes[node].name,))[0]: gradient_origin
        for node, gradient_origin in gradient_origins.items()
    }


def test_zero_begins_in_the_node_that_got_a_gradient_and_the_others_pass_it_on() -> None:
    flow = {"Sum": (FINE, [FINE]), "Sign": (FINE, [ZERO]), "Mul": (ZERO, [ZERO, ZERO]), "w": (ZERO, [])}
    assert by_node("w -> Mul -> Sign -> Sum -> loss; b -> Mul", flow) == {
        "SignBackward0": GradientOrigin("zero", "node")
    }


def test_one_lost_branch_is_an_origin_even_if_the_others_go_on() -> None:
    flow = {"Mul": (FINE, [ZERO, FINE]), "Exp": (ZERO, [ZERO]), "w": (ZERO, [])}
    assert by_node("w -> Exp -> Mul -> loss; b -> Mul", flow) == {"MulBackward0": GradientOrigin("zero", "node")}


def test_a_weight_alone_that_gets_zero_is_an_aside() -> None:
    flow = {"Mul": (FINE, [ZERO, FINE]), "w": (ZERO, []), "Exp": (FINE, [FINE])}
    assert by_node("w -> Mul -> loss; x -> Exp -> Mul", flow) == {
        "MulBackward0": GradientOrigin("zero", "node", is_aside=True)
    }


def test_inf_that_turns_into_nan_later_has_one_origin() -> None:
    flow = {"Sum": (FINE, [FINE]), "Log": (FINE, [INF]), "Mul": (INF, [NAN]), "w": (NAN, [])}
    assert by_node("w -> Mul -> Log -> Sum -> loss", flow) == {"LogBackward0": GradientOrigin("inf", "node")}


def test_nan_can_begin_in_zeros_alone() -> None:
    flow = {"Where": (FINE, [ZERO]), "Sqrt": (ZERO, [NAN]), "w": (NAN, [])}
    assert by_node("w -> Sqrt -> Where -> loss", flow) == {
        "SqrtBackward0": GradientOrigin("nan", "zeros"),
        "WhereBackward0": GradientOrigin("zero", "node"),
    }


def test_branches_that_cancel_make_zero_where_they_meet() -> None:
    flow = {"Sub": (FINE, [FINE, FINE]), "w": (ZERO, [])}
    assert by_node("w -> Sub -> loss; w -> Sub", flow) == {"w": GradientOrigin("zero", "sum")}


def test_what_changes_on_a_single_edge_was_changed_by_a_hook() -> None:
    flow = {"Sum": (FINE, [FINE]), "w": (ZERO, [])}
    assert by_node("w -> Sum -> loss", flow) == {"w": GradientOrigin("zero", "hook")}


def test_no_node_is_blamed_for_gradients_that_were_not_measured() -> None:
    assert by_node("w -> Sum -> loss", {"Sum": (UNKNOWN, [ZERO]), "w": (ZERO, [])}) == {}
    assert by_node("w -> Sum -> loss", {"Sum": (FINE, [UNKNOWN]), "w": (ZERO, [])}) == {}
    assert by_node("w -> Sum -> loss", {}) == {}


def test_a_node_that_sends_no_tensor_differs_from_one_that_sends_zeros() -> None:
    flow = {"Mine": (FINE, [NOTHING]), "w": (NOTHING, [])}
    graph = with_flow("w -> Mine -> loss", flow)
    assert list(find_gradient_origins(graph).by_node.values()) == [GradientOrigin("none", "node")]
    assert set(find_gradient_origins(graph).arrived.values()) == {"none"}


def test_where_no_gradient_was_asked_for_none_is_missing() -> None:
    assert by_node("w -> Add -> loss; b -> Add", {"Add": (FINE, [FINE, NOTHING]), "w": (FINE, [])}) == {}


def test_paths_that_cancel_where_they_meet_split_at_the_nearest_common_node() -> None:
    graph = graph_of("w -> Exp -> Mean -> Expand -> Sub -> Sum -> loss; Exp -> Sub")
    numbers = {node.name: node.id for node in graph.nodes}
    assert node_where_paths_split(senders(graph), numbers["ExpBackward0"]) == numbers["SubBackward0"]


def test_paths_from_two_roots_have_no_common_node() -> None:
    graph = graph_of("w -> Exp -> Sum -> loss; Exp -> Mean -> other")
    (shared,) = (node.id for node in graph.nodes if node.name == "ExpBackward0")
    assert node_where_paths_split(senders(graph), shared) is None
