"""Runs a command, such as ``torchrun train.py``, whose processes are recorded by their environment."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gradviz.errors import BadInput


def run_command(words: Sequence[str]) -> int:
    """Run the command to its end; returns its exit code as a shell does.

    Ctrl-C reaches the command as well as this process, which waits for it; SIGTERM is passed on to it.
    """
    sys.stdout.flush()
    try:
        process = subprocess.Popen(words)
    except OSError as error:
        raise BadInput(f"cannot run {words[0]!r}: {error.strerror}") from error
    with _passing_on(signal.SIGTERM, process.send_signal), _ignoring(signal.SIGINT):
        code = process.wait()
    return code if code >= 0 else 128 - code


@contextmanager
def _passing_on(number: signal.Signals, send: Callable[[int], None]) -> Iterator[None]:
    with _handled(number, lambda given, _: send(given)):
        yield


@contextmanager
def _ignoring(number: signal.Signals) -> Iterator[None]:
    with _handled(number, lambda *_: None):
        yield


@contextmanager
def _handled(number: signal.Signals, handler: Callable[[int, Any], None]) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
