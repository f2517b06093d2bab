"""Which neighbours count as repetitions."""

from __future__ import annotations

import pytest

from gradviz.view.fold.repeat_search import Run, find_runs


def chained(length: int) -> list[tuple[int, ...]]:
    return [(index - 1,) for index in range(length)]


def runs_of(text: str, wiring: list[tuple[int, ...]] | None = None) -> list[tuple[int, int, int]]:
    signatures = [ord(letter) for letter in text]
    found = find_runs(signatures, wiring or chained(len(text)), lambda run: run.count >= 2)
    return [(run.start, run.period, run.count) for run in found]


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("aaaa", [(0, 1, 4)]),
        ("xabcabcabcy", [(1, 3, 3)]),
        ("aabcaabd", [(0, 1, 2), (4, 1, 2)]),
        ("abcd", []),
        ("ababcdcdcd", [(0, 2, 2), (4, 2, 3)]),
        ("", []),
    ],
)
def test_neighbours_that_are_alike_are_one_run(text: str, runs: list[tuple[int, int, int]]) -> None:
    assert runs_of(text) == runs


def test_a_period_in_which_letters_recur_is_found() -> None:
    found = find_runs([ord(letter) for letter in "aab" * 5], chained(15), lambda run: run.count >= 4)
    assert found == [Run(0, 3, 5, is_chain=True)]


def test_a_run_ends_where_the_wiring_changes() -> None:
    wiring = chained(8)
    wiring[4] = (0,)
    assert runs_of("aaaaaaaa", wiring) == [(0, 1, 4), (4, 1, 4)]


def test_units_side_by_side_are_no_chain() -> None:
    wiring = [(-1,), (0,), (0,), (0,), (0,)]
    (run,) = find_runs([1, 2, 2, 2, 2], wiring, lambda run: run.count > 2)
    assert run == Run(1, 1, 4, is_chain=False)


def test_a_repetition_begins_where_least_is_carried_over() -> None:
    # "b" takes from both "a"s of its own repetition; begun at the second "a", each would take two from the one before.
    wiring = [(), (-1,), (0,), (1, 2), (3,), (3,), (4, 5), (6,), (6,), (7, 8)]
    (run,) = find_runs([ord(letter) for letter in "baabaabaab"], wiring, lambda run: run.count >= 3)
    assert (run.start, run.period, run.count) == (1, 3, 3)


def test_a_loop_in_the_source_decides_where_a_repetition_begins() -> None:
    letters = [ord(letter) for letter in "babababa"] + [ord("b")]
    (run,) = find_runs(letters, chained(9), lambda run: run.count >= 4, [2, 1, 2, 1, 2, 1, 2, 1, 2])
    assert (run.start, run.count) == (1, 4)


def test_long_rows_without_any_repetition_are_searched_in_linear_time() -> None:
    row = [(index * index) % 1009 for index in range(50_000)]
    assert all(run.period >= 1 for run in find_runs(row, chained(50_000), lambda run: False))
