"""A page of a file; when the file changes, the page is drawn again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock

from gradviz.cli.terminal.printing import tell
from gradviz.errors import GradvizError


class ServedPage:
    """The current page; several threads may request it."""

    def __init__(self, draw: Callable[[int], str], file: Path | None) -> None:
        """`draw` makes the page of a version; versions count from 1. Without a `file` there is only one version."""
        self._draw = draw
        self._file = file
        self._lock = Lock()
        self._seen = self._state_of_file()  # before it is read, so that a change during reading is noticed
        self.version = 1
        self.content = draw(1)

    def update(self) -> None:
        """Draw the page again if the file has changed; if that fails, report it and keep the old page."""
        with self._lock:
            state = self._state_of_file()
            if state is None or state == self._seen:
                return
            self._seen = state
            try:
                self.content = self._draw(self.version + 1)
                self.version += 1
            except GradvizError as error:
                tell(f"the page is unchanged: {error}")

    def _state_of_file(self) -> tuple[int, ...] | None:
        """Values that differ after the file was written again; None if there is no file."""
        try:
            found = self._file.stat() if self._file is not None else None
        except OSError:
            return None
        return None if found is None else (found.st_ino, found.st_size, found.st_mtime_ns)
