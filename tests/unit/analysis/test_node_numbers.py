"""The numbers of a node of a capture, by the names in its formula."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gradviz.analysis.explain.node_explanation import explain_in_graph
from gradviz.analysis.numbers.node_numbers import NodeNumbers, node_numbers
from gradviz.capture.capture import Capture, Program
from gradviz.errors import BadInput, NotInThisGraph
from gradviz.formulas import known_formulas, of
from gradviz.graph.gradients import NodeRun, TensorFigures
from gradviz.graph.model import Graph
from gradviz.graph.saved_tensors import SavedTensor
from tests.builders import GraphBuilder, facts, graph_of

PROGRAM = Program("train.py", torch_version="2.13.0")


def number(value: float) -> TensorFigures:
    return TensorFigures(count=1, values=(value,))


def numbers_of(graph: Graph, node: int) -> NodeNumbers:
    name = graph.nodes[node].name
    return node_numbers(Capture(PROGRAM, (graph,)), graph, graph.nodes[node], of(name))


def product_with_data() -> Graph:
    """``data * w``: the first factor needs no gradient."""
    build = GraphBuilder()
    data = build.constant("data")
    product = build.operation("Mul", None, build.leaf("w"), constants=[data])
    build.root(product)
    graph = build.build()
    nodes = [replace(node, values=(number(5.0 * node.id),)) for node in graph.nodes]
    nodes[1] = replace(nodes[1], arrived=(number(1.0),), gradients=(None, number(2.0)), run=NodeRun(0))
    return replace(graph, nodes=tuple(nodes), constants=(replace(graph.constants[0], value=number(2.0)),))


def test_inputs_have_the_names_of_arguments_also_those_without_gradient() -> None:
    found = numbers_of(product_with_data(), 1)
    assert [(each.name, each.variables, each.wants_gradient) for each in found.inputs] == [
        ("self", ("data",), False),
        ("other", ("w",), True),
    ]
    assert [(each.name, each.figures) for each in found.sent] == [("other", number(2.0))]
    assert [each.name for each in found.arrived] == ["grad"]
    assert found.unsaid == ()


def test_constants_in_another_order_than_in_the_node_are_named_by_saved_tensors() -> None:
    build = GraphBuilder()
    data, bias = build.constant("data", (4, 2)), build.constant("bias", (3,))
    saved = [SavedTensor("mat1", facts(4, 2))]
    # As of linear(data, weight, bias), which runs addmm(bias, data, weight).
    product = build.operation("Addmm", None, None, build.leaf("w", (2, 3)), constants=[data, bias], saved=saved)
    build.root(product)
    found = {each.name: each.variables for each in numbers_of(build.build(), product).inputs}
    assert found == {"self": ("bias",), "mat1": ("data",), "mat2": ("w",)}


def test_a_plain_number_that_was_multiplied_with_is_an_input_like_any_other() -> None:
    build = GraphBuilder()
    build.root(build.operation("Mul", build.leaf("w"), None, saved=[SavedTensor("other", facts(), value=number(3.0))]))
    found = [(each.name, each.figures, each.wants_gradient) for each in numbers_of(build.build(), 1).inputs]
    assert found == [("self", None, True), ("other", number(3.0), False)]


def test_the_indices_of_an_indexing_are_counted() -> None:
    build = GraphBuilder()
    rows, columns = build.constant("rows"), build.constant("columns")
    chosen = build.operation("Index", build.leaf("w"), constants=[rows, columns])
    build.root(chosen)
    found = [each.name for each in numbers_of(build.build(), chosen).inputs]
    assert found == ["self", "indices[0]", "indices[1]"]


def test_missing_numbers_are_disclosed_with_how_to_record_them() -> None:
    (unmeasured, no_values) = numbers_of(graph_of("w -> Exp -> loss"), 1).unsaid
    assert "did not run this node" in unmeasured
    assert "--values" in no_values


def test_for_complex_tensors_the_disclosure_does_not_offer_an_option() -> None:
    graph = graph_of("w -> Exp -> loss")
    complex_result = replace(graph.nodes[1], outputs=(replace(facts(2), dtype="complex64"),))
    (_, no_values) = numbers_of(replace(graph, nodes=(graph.nodes[0], complex_result)), 1).unsaid
    assert no_values == "for complex tensors only norms are recorded, not single numbers"


def test_edges_that_fit_no_schema_are_counted() -> None:
    graph = graph_of("a -> Exp; b -> Exp -> loss")
    assert [each.name for each in numbers_of(graph, 2).inputs] == ["input 0", "input 1"]


def test_of_several_nodes_the_first_is_explained_and_the_others_are_named() -> None:
    graph = graph_of("w -> Exp.a -> Exp.b -> loss")
    page = explain_in_graph(Capture(PROGRAM, (graph,)), (graph,), "exp", known_formulas())
    assert page.numbers is not None
    assert page.numbers.id == 1
    assert [each.node for each in page.others] == ["node:2"]


def test_a_name_of_several_nodes_of_one_call_means_the_one_with_the_result() -> None:
    build = GraphBuilder()
    weight = build.leaf("w")
    call = "torch.nn.functional.linear"
    turned = build.operation("T", weight, kind="view", forward_call=call)
    build.root(build.operation("Addmm", build.leaf("b"), None, turned, forward_call=call))
    graph = build.build()
    page = explain_in_graph(Capture(PROGRAM, (graph,)), (graph,), "linear", known_formulas())
    assert page.node == "AddmmBackward0"
    assert [each.node for each in page.others] == ["node:1"]
    assert page.numbers is not None
    assert [(each.name, each.view_of) for each in page.numbers.inputs] == [("self", ()), ("mat2", ("w",))]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("model.fc", "means 2 operations; name one of them: node:2 (MulBackward0), node:3 (AddBackward0)"),
        ("mask", "'mask' needs no gradient"),
    ],
)
def test_a_name_of_several_operations_is_refused_with_the_nodes_to_choose_from(name: str, said: str) -> None:
    graph = graph_of("w -> model.fc/Mul -> model.fc/Add -> loss; b -> model.fc/Add; {mask} -> model.fc/Mul")
    with pytest.raises(BadInput) as refusal:
        explain_in_graph(Capture(PROGRAM, (graph,)), (graph,), name, known_formulas())
    assert said in str(refusal.value)


def test_a_name_means_the_first_graph_that_has_it() -> None:
    first, second = graph_of("w -> Exp -> loss"), graph_of("w -> Log -> loss")
    capture = Capture(PROGRAM, (first, second))
    assert explain_in_graph(capture, capture.graphs, "log", known_formulas()).node == "LogBackward0"
    with pytest.raises(NotInThisGraph):
        explain_in_graph(capture, capture.graphs, "sin", known_formulas())


def test_formulas_of_another_torch_than_the_one_that_ran_are_disclosed() -> None:
    graph = graph_of("w -> Exp -> loss")
    formulas = known_formulas()
    page = explain_in_graph(Capture(Program("old.py", torch_version="2.4.0"), (graph,)), (graph,), "exp", formulas)
    installed = formulas.table.torch_version
    assert page.disclosures[0].startswith(f"recorded with torch 2.4.0; the formulas are those of torch {installed}")
