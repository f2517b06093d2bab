"""Which repetitions are worth a box, and which groups are alike."""

from __future__ import annotations

import pytest

from gradviz.view.fold.groups import Entry, Group
from gradviz.view.fold.repeat_search import Run, Wiring
from gradviz.view.fold.repeats import Row, signatures_of_entries


def is_folded(count: int, *, box_sizes: list[int], is_chain: bool) -> bool:
    """Whether `count` repetitions of members with these sizes become one box; 0 is an operation, more a box."""
    period = len(box_sizes)
    wiring: list[Wiring] = [() for _ in range(count * period)]
    row = Row([*range(count * period)], [0] * count * period, wiring, box_sizes * count, [])
    return row.is_worth_folding(Run(0, period, count, is_chain))


@pytest.mark.parametrize(
    ("words", "box_sizes", "is_chain", "fewest"),
    [
        ("side by side", [0], False, 5),
        ("boxes side by side", [9], False, 5),
        ("operations in a row", [0], True, 4),
        ("small boxes in a row", [1], True, 3),
        ("boxes of two", [2], True, 3),
        ("large boxes in a row", [4], True, 2),
        ("a box and an operation in turn", [2, 0], True, 3),
        ("many members in turn", [9, 0, 2], True, 2),
    ],
)
def test_so_many_alike_become_one_box_and_more_too(
    words: str, box_sizes: list[int], is_chain: bool, fewest: int
) -> None:
    folded = [count for count in range(2, 9) if is_folded(count, box_sizes=box_sizes, is_chain=is_chain)]
    assert folded == list(range(fewest, 9)), words


def test_groups_are_alike_only_where_they_hold_as_many_of_the_same() -> None:
    def group(count: int, *entries: int) -> Group:
        return Group(0, count, entries, count)

    signatures = [7, 8, 7]
    entries: list[Entry] = [group(3, 0), group(4, 0), group(3, 1), group(3, 2), 0, group(3, 0, 1)]
    three, four, others, again, single, pairs = signatures_of_entries(entries, signatures)
    assert three == again
    assert len({three, four, others, single, pairs}) == 5
