"""Keeps the stack of a process that compiled code ends, as gloo does where the sizes of a collective differ.

Python's `faulthandler` writes it, unless the program uses that itself.
"""

from __future__ import annotations

import faulthandler
import os
import re
from pathlib import Path
from typing import IO

from gradviz.capture.rank_end import Stand
from gradviz.recording.ranks.standstill import stand_of

_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')


class SuddenStack:
    """Lets Python write that stack to a file, between `start` and `stop`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    def start(self) -> None:
        """Begin, if nobody else wants the stack."""
        if self._file is not None or faulthandler.is_enabled():
            return
        try:
            self._file = self._path.open("w")
        except OSError:
            return  # of a full disk, or a folder that is gone; what else is written there tells
        faulthandler.enable(self._file)
        os.register_at_fork(after_in_child=self.stop)

    def stop(self) -> None:
        """Put back what was there."""
        file, self._file = self._file, None
        if file is not None:
            faulthandler.disable()
            file.close()


def sudden_stack(path: Path) -> Stand | None:
    """Where the thread stood that ended its process; None if that was not by an error of compiled code."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return None
    threads: list[list[tuple[str, int, str]]] = [[]]
    for line in lines:
        if line.startswith(("Current thread", "Thread")):
            threads.append([])
        found = _FRAME.match(line)
        if found is not None:
            threads[-1].append((found[1], int(found[2]), found[3]))
    # Often a thread of the backend fails, which has no frames of Python; the main thread comes last.
    stands = [stand_of(frames) for frames in reversed(threads)]
    return next((each for each in stands if each.lines), None)
