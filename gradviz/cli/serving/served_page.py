"""A page that follows a file: once that has changed, it is drawn anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock

import click

from gradviz.errors import GradvizError


class ServedPage:
    """The page as it is now; several threads may ask for it."""

    def __init__(self, draw: Callable[[int], str], file: Path | None) -> None:
        """`draw` makes the page of a version, which are numbered from 1 on; without a `file`, there is only one."""
        self._draw = draw
        self._file = file
        self._lock = Lock()
        self._seen = self._state_of_file()  # before it is read: what changes meanwhile is read again
        self.version = 1
        self.content = draw(1)

    def follow(self) -> None:
        """Draw the page anew where the file has changed; what cannot be drawn is told, and it stays as it was."""
        with self._lock:
            state = self._state_of_file()
            if state is None or state == self._seen:
                return
            self._seen = state
            try:
                self.content = self._draw(self.version + 1)
                self.version += 1
            except GradvizError as error:
                click.echo(f"gradviz: the page stays as it was: {error}", err=True)

    def _state_of_file(self) -> tuple[int, ...] | None:
        """What differs once the file was written again; None while it is not there."""
        try:
            found = self._file.stat() if self._file is not None else None
        except OSError:
            return None
        return None if found is None else (found.st_ino, found.st_size, found.st_mtime_ns)
