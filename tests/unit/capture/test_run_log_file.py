from __future__ import annotations

import struct
import zlib
from math import inf, nan
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradviz.capture.capture import Program
from gradviz.capture.capture_file import load_capture
from gradviz.capture.run_log import (
    RunEnd,
    RunHeader,
    RunLog,
    StepFigures,
    WatchedParameter,
    floats,
    integers,
    packed_floats,
    packed_integers,
)
from gradviz.capture.run_log_file import RunLogWriter, load_run_log, read_run_log, record
from gradviz.errors import BadCapture

HEADER = RunHeader(
    Program("train.py"), (WatchedParameter("fc.weight", (5, 4), "float32"), WatchedParameter("fc.bias", (3,))), every=10
)
STEPS = tuple(
    StepFigures(
        step, packed_floats([0.5, nan]), packed_floats([1.0, 2.0]), packed_integers([step, 0]), b"", b"", {"why": (1,)}
    )
    for step in (1, 10, 20)
)
END = RunEnd(25, ("something was missed",))
RECORDS = [record(b"H", HEADER), *(record(b"S", step) for step in STEPS), record(b"E", END)]
WHOLE = b"gradviz run log 1\n" + b"".join(RECORDS)


def read(data: bytes) -> RunLog | None:
    """The log, or None for a refusal, which is one line."""
    try:
        return read_run_log(data, "run.gradviz")
    except BadCapture as refusal:
        assert "\n" not in str(refusal)
        assert str(refusal).startswith("'run.gradviz' ")
        return None


def is_told_and_true(log: RunLog | None) -> bool:
    """No wrong step is read, and what is missing is reported."""
    if log is None:
        return True
    is_whole = log.steps == STEPS and log.end == END
    return log.header == HEADER and STEPS[: len(log.steps)] == log.steps and (is_whole or log.cut is not None)


def test_a_run_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "run.gradviz"
    writer = RunLogWriter(path, HEADER)
    for step in STEPS:
        writer.add(step)
    writer.close(END)
    assert path.read_bytes() == WHOLE
    assert load_run_log(path) == RunLog(HEADER, STEPS, END)


def test_a_writer_that_gets_no_step_leaves_an_older_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "run.gradviz"
    path.write_bytes(WHOLE)
    RunLogWriter(path, HEADER).close(END)
    assert path.read_bytes() == WHOLE


def test_rows_of_numbers_are_what_was_packed() -> None:
    assert list(floats(packed_floats([0.25, 1e-300]))) == [0.25, 1e-300]
    assert list(integers(packed_integers([0, 7]), 2)) == [0, 7]
    assert packed_integers([0, 0]) == b""
    assert list(integers(b"", 2)) == [0, 0]


def test_a_log_cut_anywhere_is_read_up_to_its_last_whole_step() -> None:
    ends = [len(b"gradviz run log 1\n") + sum(map(len, RECORDS[: count + 1])) for count in range(len(RECORDS))]
    for length in range(len(WHOLE)):
        log = read(WHOLE[:length])
        if length < ends[0]:
            assert log is None
            continue
        assert log is not None
        assert len(log.steps) == min(sum(end <= length for end in ends) - 1, len(STEPS))
        assert log.end is None
        assert (log.cut is None) == (length in ends)


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_refused_or_cuts_the_log_off_there(place: int, flip: int) -> None:
    assert is_told_and_true(read(WHOLE[:place] + bytes([WHOLE[place] ^ flip]) + WHOLE[place + 1 :]))


@given(st.integers(0, len(WHOLE)), st.integers(0, len(WHOLE)), st.binary(max_size=40))
def test_any_stretch_of_bytes_may_be_replaced_by_others(start: int, end: int, other: bytes) -> None:
    data = WHOLE[: min(start, end)] + other + WHOLE[max(start, end) :]
    # Whole records in another order, or left out, are as they were written.
    log = read(data)
    assert log is None or (log.header == HEADER and all(step in STEPS for step in log.steps))


@given(st.binary(max_size=200))
def test_any_bytes_after_the_first_line_are_read_or_reported(other: bytes) -> None:
    assert read(b"gradviz run log 1\n" + other) is None


def test_a_length_that_was_made_huge_reads_no_further_than_the_file() -> None:
    start = struct.pack(">cI", b"S", 2**32 - 1)
    huge = start + struct.pack(">II", zlib.crc32(start), 0)
    log = read(b"gradviz run log 1\n" + RECORDS[0] + huge + b"xyz")
    assert log is not None
    assert log.cut == "is cut short: its last 16 bytes are not a complete record"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"norms": packed_floats([0.5])}, "step 10 has 8 bytes of norms for 2 parameters"),
        ({"zeros": b"x"}, "step 10 has 1 bytes of zeros for 2 parameters"),
        ({"step": 1}, "step 1 follows step 1"),
        ({"unmeasured": {"why": (2,)}}, "step 10 refers to parameter 2 of 2"),
        ({"norms": packed_floats([0.5, -1.0])}, "step 10 has -1.0 among its norms, at fc.bias"),
        ({"weight_norms": packed_floats([inf, 1.0])}, "step 10 has inf among its weight_norms, at fc.weight"),
        ({"nans": packed_integers([10**6, 0])}, "step 10 has 10 zeros, 1000000 NaN and 0 Inf in the"),
    ],
)
def test_a_step_that_says_something_impossible_ends_the_log_and_is_named(changes: dict[str, Any], told: str) -> None:
    wrong = msgspec.structs.replace(STEPS[1], **changes)
    log = read(b"gradviz run log 1\n" + RECORDS[0] + RECORDS[1] + record(b"S", wrong))
    assert log is not None
    assert log.steps == STEPS[:1]
    assert log.cut is not None
    assert log.cut.startswith(f"is damaged after step 1: {told}")


def test_records_of_a_later_gradviz_are_ignored() -> None:
    later = record(b"Q", RunEnd(7))
    assert read(b"gradviz run log 1\n" + b"".join([RECORDS[0], later, *RECORDS[1:]])) == RunLog(HEADER, STEPS, END)


def test_bytes_after_the_end_are_reported() -> None:
    log = read(WHOLE + b"\r\n")
    assert log is not None
    assert log.cut == "is damaged: 2 bytes follow its end"


def test_a_newer_format_says_to_upgrade() -> None:
    with pytest.raises(BadCapture, match="has run log format 2, and this gradviz reads up to 1; upgrade"):
        read_run_log(WHOLE.replace(b"log 1\n", b"log 2\n"), "run.gradviz")


def test_a_run_log_is_no_capture_and_the_line_says_what_shows_it(tmp_path: Path) -> None:
    path = tmp_path / "run.gradviz"
    path.write_bytes(WHOLE)
    with pytest.raises(BadCapture, match=r"is a run log of gradviz.watch\(\), which holds no graph; 'gradviz flow"):
        load_capture(path)
