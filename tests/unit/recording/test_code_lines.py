"""What a report says of a line of the program: the loop and the condition around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradviz.recording.ranks.code_lines import code_line

SOURCE = """
for step in range(3):
    for x in data:
        if rank == 0:
            barrier()
        else:
            send()
    if rank == 1: save()
    step()

def report():
    if rank != 0:
        return
    reduce()
    if done:
        raise ValueError
    gather()
"""


@pytest.mark.parametrize(
    ("line", "loop", "condition", "is_else"),
    [
        (5, (2, 9), 4, False),
        (7, (2, 9), 4, True),
        (4, (2, 9), 0, False),
        (9, (2, 9), 0, False),
        (14, None, 12, True),
        (17, None, 12, True),
    ],
)
def test_a_line_is_told_with_its_loop_and_the_condition_on_which_it_depends(
    line: int, loop: tuple[int, int] | None, condition: int, is_else: bool, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(SOURCE)
    found = code_line(str(tmp_path / "train.py"), line)
    assert (found.loop, found.condition, found.is_else) == (loop, condition, is_else)
    assert found.text == SOURCE.splitlines()[line - 1].strip()


def test_a_file_that_does_not_parse_or_is_gone_has_lines_without_surroundings(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("for x in\nbarrier()\n")
    assert code_line(str(tmp_path / "broken.py"), 2).text == "barrier()"
    assert code_line(str(tmp_path / "gone.py"), 2).loop is None
