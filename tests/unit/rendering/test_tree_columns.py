"""Which columns a list asks for."""

from __future__ import annotations

import pytest

from gradviz.errors import BadInput
from gradviz.rendering.tree_columns import COLUMNS, USUAL, columns_named


def names(columns: str | None) -> list[str]:
    return [column.name for column in columns_named(columns)]


def test_columns_come_in_the_order_of_the_list() -> None:
    assert names("line, shape") == ["line", "shape"]
    assert names("operation,line") == names("LINE,operation") == ["line"], "the operation always stands first"
    assert names("operation") == []


def test_a_plus_adds_to_the_usual_ones() -> None:
    assert names(None) == list(USUAL)
    assert names("+dtype,module") == names("+dtype, +module") == [*USUAL, "dtype", "module"]


def test_all_are_all() -> None:
    assert columns_named("all") == COLUMNS


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("shpae", "unknown column 'shpae'; did you mean 'shape'?"),
        ("", "unknown column ''"),
        ("shape,", "unknown column ''"),
        ("+shape", "column 'shape' is named twice"),
    ],
)
def test_a_mistaken_list_is_refused(columns: str, words: str) -> None:
    with pytest.raises(BadInput) as refusal:
        columns_named(columns)
    assert words in str(refusal.value)
