"""The progress line, on a pseudo-terminal."""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gradviz.cli.terminal import progress

CLEAR = b"\r\x1b[K"


@contextmanager
def a_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A terminal as standard error; yields the other end, to read from."""
    ours, theirs = os.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(theirs, "w") as stream:
        # Not in a fixture: pytest puts its own stream in place when a test begins.
        monkeypatch.setattr(sys, "stderr", stream)
        yield ours
    os.close(ours)


def written_to(terminal: int) -> bytes:
    os.set_blocking(terminal, False)
    try:
        return os.read(terminal, 65536)
    except BlockingIOError:
        return b""


def told(terminal: int) -> bytes:
    """The output up to the first words, after waiting for them."""
    seen = b""
    while b" s)" not in seen:
        seen += written_to(terminal)
        time.sleep(0.01)
    return seen


def test_long_work_is_reported_and_the_words_are_gone_when_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.0)
    with a_terminal(monkeypatch) as terminal:
        with progress.working("drawing net.svg"):
            seen = told(terminal)
        seen += written_to(terminal)
    assert seen.startswith(CLEAR + b"gradviz: drawing net.svg (0 s)")
    assert seen.endswith(CLEAR)


def test_the_words_are_gone_before_an_error_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.0)
    with a_terminal(monkeypatch) as terminal:
        with pytest.raises(KeyboardInterrupt), progress.working("drawing net.svg"):
            told(terminal)
            raise KeyboardInterrupt
        assert written_to(terminal).endswith(CLEAR)


def test_short_work_says_nothing_and_leaves_no_thread_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    before = threading.active_count()
    with a_terminal(monkeypatch) as terminal:
        with progress.working("drawing net.svg"):
            pass
        assert written_to(terminal) == b""
    assert threading.active_count() == before


def test_nothing_is_shown_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.0)
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    before = threading.active_count()
    with progress.working("drawing net.svg"):
        assert threading.active_count() == before
    assert stream.getvalue() == ""
