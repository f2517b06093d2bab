"""Backward calls side by side: what each is, and what changed from one to the next."""

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


def test_operations_that_came_and_went_are_told_the_most_first() -> None:
    found = changes(graph_of("w -> Mul -> Sum -> loss"), graph_of("w -> net/Exp.a -> net/Exp.b -> Sum -> loss"))
    assert found["operations"] == ["ExpBackward0 in net: 0 → 2", "MulBackward0: 1 → 0"]


def test_equal_graphs_differ_in_nothing() -> None:
    graph = fading(graph_of("w -> Mul -> Sum -> loss"))
    assert changes(graph, graph) == {}


def test_a_parameter_that_gets_nothing_any_more_stands_before_those_that_get_less() -> None:
    before = fading(graph_of("w -> Mul -> Sum -> loss; v -> Mul"))
    after = fading(graph_of("w -> Mul -> Exp -> Log -> Sum -> loss"))
    assert changes(before, after)["gradient norms of parameters"] == ["v: 0.01 → nothing", "w: 0.001 → 0.0001"]


def test_only_so_many_changes_of_one_sort_are_told() -> None:
    many = " -> ".join(f"Op{'A' * (n + 1)}" for n in range(MAX_CHANGES + 3))
    (operations,) = calls_of(graph_of("w -> Sum -> loss"), graph_of(f"w -> {many} -> Sum -> loss")).changes(1)
    assert (len(operations.rows), operations.more) == (MAX_CHANGES, 3)


def test_they_are_called_as_they_are_counted() -> None:
    graph = graph_of("w -> Sum -> loss")
    third, without = replace(graph, backward=BackwardCall(3, "grad")), replace(graph, backward=None)
    assert [call.title for call in calls_of(third, without).listed()] == ["grad() no. 3", "from loss"]
