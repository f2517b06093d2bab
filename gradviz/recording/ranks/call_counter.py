"""How many backward calls a process has begun, known even if it is killed: a few bytes in a file, written in place.

They can be written on a full disk, too: so the file also takes why nothing else could be.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_WIDTH = 20
_MAX_PROBLEM = 300


class CallCounter:
    """Writes the number at every call, between `start` and `stop`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def start(self) -> None:
        """Make the file; on a full disk there is none."""
        if self._file is None:
            with suppress(OSError):
                self._file = os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o600)
                os.pwrite(self._file, b" " * (_WIDTH + _MAX_PROBLEM), 0)

    def note(self, calls: int) -> None:
        """This many were begun."""
        if self._file is not None:
            try:
                os.pwrite(self._file, f"{calls:>{_WIDTH}}".encode(), 0)
            except OSError:  # the disk is full: what was told last remains
                self.stop()

    def stop(self) -> None:
        """Close the file; safe to call twice."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def note_unwritten_end(path: Path, problem: str) -> None:
    """The process has ended, and could write nothing because of `problem`."""
    with suppress(OSError):
        file = os.open(path, os.O_WRONLY)
        try:
            os.pwrite(file, problem.encode()[:_MAX_PROBLEM], _WIDTH)
        finally:
            os.close(file)


def counted_calls(path: Path) -> tuple[int, str]:
    """The number that was written last, 0 if there is none, and why the process could write nothing else."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return 0, ""
    number = text[:_WIDTH].strip()
    return int(number) if number.isdecimal() else 0, text[_WIDTH:].strip()
