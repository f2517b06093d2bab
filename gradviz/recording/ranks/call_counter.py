"""How many backward calls a process has begun, known even if it is killed: a few bytes in a file, written in place."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_WIDTH = 20


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


def counted_calls(path: Path) -> int:
    """The number that was written last; 0 if there is none."""
    try:
        text = path.read_text().strip()
    except OSError:
        return 0
    return int(text) if text.isdecimal() else 0
