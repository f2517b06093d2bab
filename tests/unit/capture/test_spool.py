"""The spool: a whole capture at any time, written seldom enough, found by its output, never in the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gradviz.capture.capture import Capture, Program
from gradviz.capture.capture_file import load_capture
from gradviz.capture.spool import ALWAYS_ALLOWED, SHARE, Spool, spools_beside, words_for


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Captures:
    """Makes captures that each take `seconds` to make."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.clock, self.seconds, self.made = clock, seconds, 0

    def __call__(self) -> Capture:
        self.made += 1
        self.clock.now += self.seconds
        return Capture(Program("train.py"), backward_calls=self.made)


def test_writing_takes_only_a_part_of_the_time_of_a_run(tmp_path: Path) -> None:
    clock, began = Clock(), Clock().now
    captures = Captures(clock, seconds=0.04)
    spool = Spool(tmp_path / "run.gradviz", pytest.fail, clock)
    for _ in range(1_000):
        spool.offer(captures)
        clock.now += 0.1
    spent = captures.made * captures.seconds
    assert captures.made > 10
    assert spent <= ALWAYS_ALLOWED + SHARE * (clock.now - began) + captures.seconds
    assert spool.path is not None
    assert load_capture(spool.path).backward_calls == captures.made


def test_a_spool_is_found_by_outputs_of_the_same_name_until_it_is_removed(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "run.svg", pytest.fail)
    spool.write(Captures(Clock(), 0))
    (found,) = spools_beside(tmp_path / "run.gradviz")
    assert (found.path, found.process) == (spool.path, os.getpid())
    assert spools_beside(tmp_path / "running.gradviz") == []
    assert str(spool.path) in words_for([found])
    second = Spool(tmp_path / "run.svg", pytest.fail)
    second.write(Captures(Clock(), 0))  # an earlier process had the same number
    assert len(spools_beside(tmp_path / "run.html")) == 2
    spool.remove()
    second.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_spool_that_cannot_be_written_is_reported_once_and_keeps_its_content(tmp_path: Path) -> None:
    warnings: list[str] = []
    spool = Spool(tmp_path / "run.gradviz", warnings.append)
    assert spool.write(Captures(Clock(), 0))

    def fails() -> Capture:
        raise OSError(28, "No space left on device")

    assert not spool.write(fails)
    assert not spool.write(Captures(Clock(), 0))
    assert warnings == [
        f"cannot write {str(spool.path)!r}: No space left on device; if the script ends suddenly, the recording is lost"
    ]
    assert spool.path is not None
    assert load_capture(spool.path).backward_calls == 1


def test_a_name_that_is_too_long_for_a_spool_does_not_reach_the_program(tmp_path: Path) -> None:
    warnings: list[str] = []
    spool = Spool(tmp_path / f"{'x' * 245}.svg", warnings.append)  # as long as a name may be, but for the mark
    assert not spool.write(Captures(Clock(), 0))
    assert len(warnings) == 1 and "File name too long; if the script ends suddenly" in warnings[0]


def test_a_recording_that_cannot_be_read_just_now_is_written_at_the_next_offer(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "run.gradviz", pytest.fail)
    spool.offer(lambda: None)
    assert spool.path is None
    spool.offer(Captures(Clock(), 0))
    assert spool.path is not None
