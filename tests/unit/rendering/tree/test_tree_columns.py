"""The columns that a list names."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gradviz.errors import BadInput
from gradviz.graph.gradients import LeafGradient, TensorFigures
from gradviz.graph.model import Graph
from gradviz.rendering.subjects import subject_of
from gradviz.rendering.tree.columns import COLUMNS, USUAL, columns_named
from gradviz.rendering.tree.tree import TreeRenderer
from gradviz.view.build import ViewOptions
from gradviz.view.folding import FoldOptions
from tests.builders import graph_of
from tests.captures import small_capture, small_graph
from tests.unit.analysis.memory_graphs import relu_and_square, stack_of_blocks


def names(columns: str | None) -> list[str]:
    return [column.name for column in columns_named(columns)]


def test_columns_come_in_the_order_of_the_list() -> None:
    assert names("line, shape") == ["line", "shape"]
    assert names("operation,line") == names("LINE,operation") == ["line"], "the operation always stands first"
    assert names("operation") == []


def test_a_plus_adds_to_the_usual_ones() -> None:
    assert names(None) == list(USUAL)
    assert names("+dtype,module") == names("+dtype, +module") == [*USUAL, "dtype", "module"]


def test_all_means_every_column() -> None:
    assert columns_named("all") == COLUMNS


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("shpae", "unknown column 'shpae'; did you mean 'shape' or 'saved'?"),
        ("", "unknown column ''"),
        ("shape,", "unknown column ''"),
        ("+shape", "column 'shape' is named twice"),
    ],
)
def test_a_mistaken_list_is_refused(columns: str, words: str) -> None:
    with pytest.raises(BadInput) as refusal:
        columns_named(columns)
    assert words in str(refusal.value)


def saved_column(graph: Graph, depth: int | None = None) -> list[str]:
    """The rows of a tree, each with the bytes that it keeps."""
    return rows_with("saved", graph, depth)


def rows_with(column: str, graph: Graph, depth: int | None = None) -> list[str]:
    """The rows of a tree without lines and signs, with one column."""
    options = ViewOptions(fold=FoldOptions(depth=depth))
    rows = TreeRenderer(columns=column).render(subject_of(small_capture(), graph, options)).partition("\n\n")[0]
    return [" ".join(row.split()[1:]) for row in rows.splitlines()[1:]]


def test_a_row_shows_the_bytes_that_its_nodes_keep_without_parameters() -> None:
    # The result of relu is kept twice: both rows show it.
    assert saved_column(relu_and_square()) == ["loss", "pow 400 B", "relu 400 B", "mul 400 B", "w"]


def test_a_folded_box_shows_the_bytes_that_all_repetitions_keep() -> None:
    assert "model · 6 params 14.6 KiB" in saved_column(stack_of_blocks(3), depth=0)
    assert "h.0 … h.2 ×3 14.6 KiB" in saved_column(stack_of_blocks(3), depth=1)


def test_a_row_says_that_it_keeps_tensors_of_unknown_size() -> None:
    assert "linear 24 B + ?" in saved_column(small_graph())


def arriving(graph: Graph, **gradients: TensorFigures) -> Graph:
    """The graph with the gradients that arrived at nodes, by the name of the operation or leaf."""
    stems = [node.names[0] if node.is_leaf else node.name.removesuffix("Backward0") for node in graph.nodes]
    return replace(
        graph,
        nodes=tuple(
            replace(node, arrived=(gradients[stem],)) if stem in gradients else node
            for node, stem in zip(graph.nodes, stems, strict=True)
        ),
        roots=tuple(replace(root, gradient=TensorFigures(count=1, norm=1.0)) for root in graph.roots),
    )


def test_a_row_shows_the_gradient_that_arrived_or_what_is_wrong_with_it() -> None:
    graph = arriving(
        graph_of("w -> Mul -> Sin -> Exp -> Tanh -> loss; v -> Mul; u -> Mul"),
        Tanh=TensorFigures(count=4, norm=0.123456),
        Exp=TensorFigures(count=4, norm=0.0, zeros=4),
        Sin=TensorFigures(count=4, norm=1.0, nans=1, infs=2),
        Mul=TensorFigures(unmeasured="sparse"),
        w=TensorFigures(is_undefined=True),
        v=TensorFigures(count=4, norm=0.0, zeros=3),
    )
    told = ["loss 1", "tanh 0.123", "exp 0", "sin NaN, Inf", "mul ?", "w none", "v 0", "u"]
    assert sorted(rows_with("gradient", graph)) == sorted(told)


def test_a_leaf_without_an_arrived_gradient_says_so() -> None:
    graph = graph_of("w -> Mul -> loss")
    unchanged = LeafGradient("unchanged")
    nodes = tuple(replace(node, leaf_gradient=unchanged) if node.is_leaf else node for node in graph.nodes)
    assert "w none" in rows_with("gradient", replace(graph, nodes=nodes))


def test_a_box_shows_the_gradient_of_its_output_and_a_repeated_one_the_first_and_the_last() -> None:
    graph = stack_of_blocks(3)
    nodes = (replace(node, arrived=(TensorFigures(count=4, norm=float(node.id)),)) for node in graph.nodes)
    graph = replace(graph, nodes=tuple(nodes))
    assert "model · 6 params 8" in rows_with("gradient", graph, depth=0)
    assert "h.0 … h.2 ×3 3 → 7" in rows_with("gradient", graph, depth=1)
