"""Backward calls side by side: a row for each, and the changes between them."""

from __future__ import annotations

from msgspec.structs import replace

from gradviz.capture.capture import Capture, Program
from gradviz.graph.model import BackwardCall, Graph
from gradviz.rendering.page.backward_calls import MAX_CHANGES, PageCalls
from gradviz.rendering.subjects import subject_of
from gradviz.view.build import ViewOptions
from tests.builders import graph_of
from tests.unit.rendering.look.test_color_by import fading


def calls_of(*graphs: Graph) -> PageCalls:
    capture = Capture(Program("train.py"), graphs)
    return PageCalls([subject_of(capture, graph, ViewOptions()) for graph in graphs])


def changes(before: Graph, after: Graph) -> dict[str, list[str]]:
    found = calls_of(before, after).changes(1)
    return {each.heading: [f"{row.what}: {row.then} → {row.now}" for row in each.rows] for each in found}


def test_a_single_graph_is_compared_with_nothing() -> None:
    calls = calls_of(graph_of("w -> Sum -> loss"))
    assert (calls.listed(), calls.changes(0)) == ((), ())


def test_operations_that_were_added_or_removed_are_listed_the_largest_difference_first() -> None:
    found = changes(graph_of("w -> Mul -> Sum -> loss"), graph_of("w -> net/Exp.a -> net/Exp.b -> Sum -> loss"))
    assert found["operations"] == ["ExpBackward0 in net: 0 → 2", "MulBackward0: 1 → 0"]


def test_equal_graphs_have_no_differences() -> None:
    graph = fading(graph_of("w -> Mul -> Sum -> loss"))
    assert changes(graph, graph) == {}


def test_a_parameter_that_no_longer_gets_a_gradient_precedes_those_with_a_smaller_one() -> None:
    before = fading(graph_of("w -> Mul -> Sum -> loss; v -> Mul"))
    after = fading(graph_of("w -> Mul -> Exp -> Log -> Sum -> loss"))
    assert changes(before, after)["gradient norms of parameters"] == ["v: 0.01 → nothing", "w: 0.001 → 0.0001"]


def test_the_number_of_listed_changes_of_one_kind_is_limited() -> None:
    many = " -> ".join(f"Op{'A' * (n + 1)}" for n in range(MAX_CHANGES + 3))
    (operations,) = calls_of(graph_of("w -> Sum -> loss"), graph_of(f"w -> {many} -> Sum -> loss")).changes(1)
    assert (len(operations.rows), operations.more) == (MAX_CHANGES, 3)


def test_calls_are_numbered_in_their_titles() -> None:
    graph = graph_of("w -> Sum -> loss")
    third, without = replace(graph, backward=BackwardCall(3, "grad")), replace(graph, backward=None)
    assert [call.title for call in calls_of(third, without).listed()] == ["grad() no. 3", "from loss"]
