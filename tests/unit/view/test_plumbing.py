"""Operations that are merged into their neighbours, and those that never are."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gradviz.graph.model import Graph
from gradviz.view.folding import FoldOptions, fold
from gradviz.view.invariants import check_view
from tests.builders import GraphBuilder, graph_of


def shown_operations(graph: Graph, *, show_plumbing: bool = False) -> list[str]:
    view = fold(graph, FoldOptions(show_all=True, show_plumbing=show_plumbing))
    check_view(view, graph)
    drawn = [graph.nodes[item.node] for item in view.items if item.node is not None]
    return [node.name for node in drawn if not node.is_leaf]


def test_a_transpose_is_merged_into_the_operation_that_uses_it() -> None:
    graph = graph_of("w -> T -> Mm -> loss; x -> Mm")
    view = fold(graph)
    (item,) = [item for item in view.items if item.node is not None and not graph.nodes[item.node].is_leaf]
    assert [graph.nodes[node].name for node in item.nodes] == ["TBackward0", "MmBackward0"]
    assert view.notes == ("1 view operation is merged into its neighbour (--plumbing shows it)",)


def test_a_cast_is_not_called_a_view() -> None:
    graph = graph_of("w -> ToCopy -> T -> Mm -> loss; x -> Mm")
    merged = "1 view operation and 1 copy or cast are merged into their neighbours (--plumbing shows them)"
    assert fold(graph).notes == (merged,)


def test_several_casts_are_counted_in_the_plural() -> None:
    (note,) = fold(graph_of("w -> ToCopy -> ToCopy.b -> Mm -> loss; x -> Mm")).notes
    assert note.startswith("2 copies and casts are merged")


def test_plumbing_is_drawn_when_asked_for() -> None:
    assert shown_operations(graph_of("w -> T -> Mm -> loss"), show_plumbing=True) == ["TBackward0", "MmBackward0"]


def test_links_pass_through_a_row_of_views_to_all_that_use_them() -> None:
    graph = graph_of("w -> Exp -> View -> Permute -> Mul -> loss; Permute -> Sum -> other")
    view = fold(graph)
    check_view(view, graph)
    titles = {item.id: graph.nodes[item.node].name for item in view.items if item.node is not None}
    pairs = {(titles[link.source], titles[link.target]) for link in view.links if link.target in titles}
    assert {("ExpBackward0", "MulBackward0"), ("ExpBackward0", "SumBackward0")} <= pairs


def test_an_unused_view_is_merged_into_its_source() -> None:
    assert shown_operations(graph_of("w -> Exp -> View -> out")) == ["ExpBackward0"]


def test_a_view_between_a_leaf_and_a_root_stays() -> None:
    assert shown_operations(graph_of("w -> View -> View.b -> out")) == ["ViewBackward0"]


def test_the_node_that_failed_is_never_merged() -> None:
    graph = graph_of("w -> Exp -> View -> Sum -> loss", failed="View")
    assert "ViewBackward0" in shown_operations(graph)


def test_a_module_that_only_reshapes_stays_visible() -> None:
    assert "ViewBackward0" in shown_operations(graph_of("w -> Exp -> flatten/View -> Sum -> loss"))


@pytest.mark.parametrize("kind", ["custom", "inplace", "compiled"])
def test_special_operations_are_never_merged(kind: str) -> None:
    builder = GraphBuilder()
    odd = builder.operation("View", builder.leaf("w"), kind=kind)  # type: ignore[arg-type]
    builder.root(builder.operation("Sum", odd))
    assert shown_operations(builder.build()) == ["ViewBackward0", "SumBackward0"]


def test_a_cast_in_a_checkpoint_is_merged_as_outside_of_it() -> None:
    builder = GraphBuilder()
    cast = builder.operation("ToCopy", builder.leaf("w"), kind="checkpoint")
    builder.root(builder.operation("Mm", cast, kind="checkpoint"))
    assert shown_operations(builder.build()) == ["MmBackward0"]


def test_a_slice_is_merged_only_where_it_takes_everything() -> None:
    builder = GraphBuilder()
    whole = builder.operation("Slice", builder.operation("Exp", builder.leaf("w")), kind="view")
    part = builder.operation("Slice", whole, kind="view", shape=(1, 3))
    builder.root(builder.operation("Sum", part))
    assert shown_operations(builder.build()) == ["ExpBackward0", "SliceBackward0", "SumBackward0"]


def test_a_view_with_a_hook_is_drawn_since_the_hook_may_change_its_gradient() -> None:
    graph = graph_of("w -> Exp -> View -> Sum -> loss")
    hooked = [replace(node, hooks=("clip",)) if node.name == "ViewBackward0" else node for node in graph.nodes]
    assert shown_operations(replace(graph, nodes=tuple(hooked))) == ["ExpBackward0", "ViewBackward0", "SumBackward0"]


def test_a_view_that_takes_an_input_without_gradient_is_drawn_with_it() -> None:
    graph = graph_of("w -> Exp -> Expand -> Sum -> loss; {mask} -> Expand")
    view = fold(graph, FoldOptions(show_all=True))
    check_view(view, graph)
    assert shown_operations(graph) == ["ExpBackward0", "ExpandBackward0", "SumBackward0"]
    assert [item.constant for item in view.items if item.constant is not None] == [0]
