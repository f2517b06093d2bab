"""One line on standard error about what takes long; nothing where nobody looks, and nothing once it is done.

Not by rich: it would be imported while somebody's script runs, from the folder of that script where that holds a file
of the name, and it takes longer to import than most of what is waited for here.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from gradviz.cli.terminal.terminal import is_terminal

PATIENCE = 0.4
"""Seconds after which a reader wonders."""
_BETWEEN_UPDATES = 0.2
_CLEAR_LINE = "\r\x1b[K"


@contextmanager
def working(on: str) -> Iterator[None]:
    """Say what is worked on, in a phrase such as ``drawing net.svg``, while what is inside takes longer than expected.

    The words are gone before anything else is written.
    """
    if not is_terminal(sys.stderr) or os.environ.get("TERM") == "dumb":
        yield
        return
    done = threading.Event()
    teller = threading.Thread(target=_tell, args=(on, sys.stderr, done), daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def _tell(on: str, stream: TextIO, done: threading.Event) -> None:
    began = time.monotonic()
    if done.wait(PATIENCE):
        return
    while True:
        words = f"gradviz: {on} ({time.monotonic() - began:.0f} s)"
        # What wraps to a second line could not be taken back. A terminal may not know its size.
        width = os.get_terminal_size(stream.fileno()).columns or 80
        stream.write(_CLEAR_LINE + words[: width - 1])
        stream.flush()
        if done.wait(_BETWEEN_UPDATES):
            break
    stream.write(_CLEAR_LINE)
    stream.flush()
