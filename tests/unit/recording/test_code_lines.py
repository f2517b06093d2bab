"""What a report says of a line of the program: the loop and the condition around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradviz.recording.ranks.code_lines import code_line
from gradviz.recording.ranks.standstill import innermost_line, stand_of
from gradviz.recording.run.file_kinds import STAND_IN

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


def test_a_frame_that_stands_in_for_a_line_is_not_told_beside_it(tmp_path: Path) -> None:
    file = str(tmp_path / "train.py")
    frames = [(file, 4, STAND_IN), (file, 4, "train"), (file, 9, "<module>")]
    line = innermost_line(frames)
    assert line is not None and line.function == "train"
    assert [(each.line, each.function) for each in stand_of(frames).lines] == [(4, "train"), (9, "<module>")]


def test_the_statements_that_leave_a_loop_or_skip_its_rest_are_known(tmp_path: Path) -> None:
    source = """
for epoch in range(3):
    for x in data:
        if bad(x):
            continue
        step(x)
    if worse():
        break
def inner():
    return 1
"""
    path = tmp_path / "leaves.py"
    path.write_text(source)
    assert code_line(str(path), 6).exits == ((5, "continue"), (8, "break"))
    assert code_line(str(path), 10).exits == ()
