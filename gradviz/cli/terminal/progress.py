"""Shows one line on standard error while a task takes long; only in a terminal, and removed at the end.

It does not use rich: rich would be imported while the user's script runs, perhaps from a file of that name in the
folder of the script, and importing it takes longer than most of these tasks.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from gradviz.cli.terminal.printing import tell
from gradviz.cli.terminal.terminal import is_terminal
from gradviz.safe_text import one_line

DELAY = 0.4
"""Seconds before the line appears."""
_BETWEEN_UPDATES = 0.2
_CLEAR_LINE = "\r\x1b[K"


def announce(line: str) -> None:
    """Print a line that only somebody who waits in front of a terminal needs."""
    if is_terminal(sys.stderr):
        tell(line)


@contextmanager
def working(on: str) -> Iterator[None]:
    """Show a phrase such as ``drawing net.svg`` while the block runs, after a short delay.

    The line is removed before anything else is written.
    """
    if not is_terminal(sys.stderr) or os.environ.get("TERM") == "dumb":
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_show_line, args=(on, sys.stderr, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show_line(on: str, stream: TextIO, done: threading.Event) -> None:
    began = time.monotonic()
    if done.wait(DELAY):
        return
    while True:
        words = f"gradviz: {one_line(on)} ({time.monotonic() - began:.0f} s)"
        # A line that wraps could not be removed. Some terminals do not know their size.
        width = os.get_terminal_size(stream.fileno()).columns or 80
        stream.write(_CLEAR_LINE + words[: width - 1])
        stream.flush()
        if done.wait(_BETWEEN_UPDATES):
            break
    stream.write(_CLEAR_LINE)
    stream.flush()
