"""Runs the command as in a terminal window: its standard streams are a pseudo-terminal of a given size."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import termios
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from select import select

from tests.end_to_end.command import GRADVIZ, exit_code_of_fork

_BETWEEN_KEYS = 0.2
_CLEARED = re.compile("[^\n]*\r\x1b\\[K")
"""A line that was cleared again, such as a progress line."""
# What the tester's own terminal is set to must not decide what the tests see.
_OWN = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "PAGER", "LESS", "GRADVIZ_PAGER", "GRADVIZ_EDITOR")


@dataclass(frozen=True)
class Window:
    """The final content of the terminal, and the exit code."""

    exit_code: int
    text: str


def in_a_terminal(
    *arguments: str | Path,
    cwd: Path,
    size: tuple[int, int] = (80, 24),
    env: dict[str, str] | None = None,
    keys: str = "",
) -> Window:
    """Run ``gradviz ARGUMENTS`` in a window of `size` columns and lines, with `env` on top of a plain environment.

    `keys` are pressed all of them again and again until the program ends, as it drops what comes before it listens.
    """
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in (*_OWN, "COLUMNS", "LINES")}
    environment |= {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **(env or {})}
    streams = (theirs, os.dup(theirs), os.dup(theirs))
    with os.fdopen(ours, "rb", buffering=0) as window, ThreadPoolExecutor(1) as pool:
        words = [GRADVIZ, *arguments]
        exit_code = pool.submit(exit_code_of_fork, "gradviz.cli:main", words, streams, cwd, environment)
        text = _all_that_is_written(window.fileno(), keys.encode())
        return Window(exit_code.result(), _CLEARED.sub("", text.decode().replace("\r\n", "\n")))


def _all_that_is_written(terminal: int, keys: bytes) -> bytes:
    chunks: list[bytes] = []
    while True:
        if keys and not select([terminal], [], [], _BETWEEN_KEYS)[0]:
            os.write(terminal, keys)
            continue
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # Linux says so when nobody has the other end open any more
            chunk = b""
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
