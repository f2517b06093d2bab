"""Which columns a list asks for."""

from __future__ import annotations

import pytest

from gradviz.errors import BadInput
from gradviz.graph.folding import FoldOptions
from gradviz.graph.model import Graph
from gradviz.graph.viewing import ViewOptions
from gradviz.rendering.subjects import subject_of
from gradviz.rendering.tree import TreeRenderer
from gradviz.rendering.tree_columns import COLUMNS, USUAL, columns_named
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
    assert names("+dtype,module") == [*USUAL, "dtype", "module"]


def test_all_are_all() -> None:
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
    """The rows of a tree without lines and signs, each with what it keeps."""
    options = ViewOptions(fold=FoldOptions(depth=depth))
    rows = TreeRenderer(columns="saved").render(subject_of(small_capture(), graph, options)).partition("\n\n")[0]
    return [" ".join(row.split()[1:]) for row in rows.splitlines()[1:]]


def test_a_row_tells_what_its_nodes_keep_without_parameters() -> None:
    # The result of relu is kept twice: each of the rows tells it.
    assert saved_column(relu_and_square()) == ["loss", "pow 400 B", "relu 400 B", "mul 400 B", "w"]


def test_a_folded_box_tells_what_all_repetitions_keep() -> None:
    assert "model · 6 params 14.6 KiB" in saved_column(stack_of_blocks(3), depth=0)
    assert "h.0 … h.2 ×3 14.6 KiB" in saved_column(stack_of_blocks(3), depth=1)


def test_a_row_says_that_it_keeps_what_could_not_be_sized() -> None:
    assert "linear 24 B + ?" in saved_column(small_graph())
