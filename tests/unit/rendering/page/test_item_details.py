"""The details of items in the panel of the page: edges with gradients, and nodes that share memory."""

from __future__ import annotations

from msgspec.structs import replace

from gradviz.capture.capture import Capture, Program
from gradviz.graph.model import CallSite, Graph
from gradviz.rendering.page.document import PageDetails, PageSection
from gradviz.rendering.page.findings import PageFindings
from gradviz.rendering.page.item_details import MAX_EDGES, PageItemDetails
from gradviz.rendering.page.item_numbers import Identities
from gradviz.rendering.page.level import level_of
from gradviz.rendering.subjects import subject_of
from gradviz.view.build import ViewOptions
from gradviz.view.folding import FoldOptions
from tests.builders import graph_of, transformer
from tests.unit.analysis.memory_graphs import relu_and_square
from tests.unit.rendering.look.test_color_by import fading


def details_of(graph: Graph, title: str, depth: int = 0) -> PageDetails:
    """The details of the item with that title, in a view with boxes open to a depth."""
    subject = subject_of(Capture(Program("train.py"), (graph,)), graph, ViewOptions(fold=FoldOptions(depth=depth)))
    level = level_of(subject, subject.view, depth, Identities(graph))
    collected = PageItemDetails(graph, PageFindings(graph))
    collected.add(level)
    (index,) = [index for index, item in enumerate(level.closed) if level.texts[item.id].title == title]
    return collected.finished()[index]


def ends(graph: Graph, edges: object) -> list[str]:
    return [graph.nodes[edge.node].name.removesuffix("Backward0") for edge in edges]  # type: ignore[attr-defined]


def test_where_branches_meet_each_edge_is_listed_with_the_sum() -> None:
    graph = fading(graph_of("w -> Mul -> Sin -> Sum -> loss; Mul -> Cos -> Sum"))
    found = details_of(graph, "mul")
    assert ends(graph, found.entering) == ["Sin", "Cos"]
    assert ends(graph, found.leaving) == ["torch::autograd::AccumulateGrad"]
    assert [each.facts[0] for each in found.arrived] == ["norm 0.001"]


def test_operations_have_their_formula_even_if_backward_cannot_be_played() -> None:
    found = details_of(graph_of("w -> Exp -> loss"), "exp")
    assert found.formula == PageSection("formula", ("x̄ = ȳ ∘ y", "x is w"))


def test_of_a_box_only_edges_across_its_border_are_listed() -> None:
    graph = graph_of("w -> Mul -> net/Sin -> net/Cos -> Sum -> loss")
    found = details_of(graph, "net")
    assert (ends(graph, found.entering), ends(graph, found.leaving)) == (["Sum"], ["Mul"])


def test_of_very_many_edges_only_some_are_listed() -> None:
    users = (f"Mul -> Op{'a' * (number + 1)} -> loss{number}" for number in range(MAX_EDGES + 1))
    graph = graph_of("; ".join(["w -> Mul", *users]))
    found = details_of(graph, "mul")
    assert (len(found.entering), found.has_more_edges) == (MAX_EDGES, True)


def test_norms_of_all_repetitions_are_listed_in_order() -> None:
    graph = fading(transformer(4))
    norms = details_of(graph, "h.0 … h.3", depth=1).norms
    assert len(norms) == 4 and list(norms) == sorted(norms, key=lambda norm: norm or 0.0)


def test_a_saved_tensor_names_the_nodes_that_keep_the_same_memory() -> None:
    graph = relu_and_square()
    (saved,) = details_of(graph, "relu").saved
    assert (saved.slot, saved.facts, saved.sharing) == ("result", ("[100]", "400 B"), 1)
    assert [graph.nodes[node].name for node in saved.shared_with] == ["PowBackward0"]


def test_calling_lines_of_the_users_code_are_listed_and_those_of_libraries_are_not() -> None:
    graph = graph_of("w -> Mul -> loss")
    sites = (
        CallSite("train.py", 30),
        CallSite("torch/module.py", 9, caller=0, is_library=True),
        CallSite("net.py", 7, caller=1),
    )
    nodes = tuple(replace(node, call_site=None if node.is_leaf else 2) for node in graph.nodes)
    assert details_of(replace(graph, nodes=nodes, call_sites=sites), "mul").callers == (("train.py", 30),)
