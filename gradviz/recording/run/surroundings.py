"""What a program changes for its whole process, and gradviz needs as it was to write its output afterwards."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from dataclasses import dataclass

_STANDARD_STREAMS = {"stdout": 1, "stderr": 2}


@dataclass(frozen=True)
class Surroundings:
    """The working directory and the recursion limit."""

    directory: str | None
    """None if it has been removed."""
    recursion_limit: int

    @classmethod
    def now(cls) -> Surroundings:
        """Those in force."""
        try:
            directory = os.getcwd()  # noqa: PTH109 - it is put back as it is
        except FileNotFoundError:
            directory = None
        return cls(directory, sys.getrecursionlimit())

    def put_back(self) -> None:
        """Put these back until the interpreter exits, when functions that the program registered run in its own."""
        of_program = Surroundings.now()
        if of_program != self:
            atexit.register(of_program._take_effect)
            self._take_effect()
        for name, descriptor in _STANDARD_STREAMS.items():
            if getattr(getattr(sys, name), "closed", False):
                setattr(sys, name, _opened_again(descriptor))

    def _take_effect(self) -> None:
        sys.setrecursionlimit(self.recursion_limit)
        if self.directory is not None:
            with contextlib.suppress(OSError):  # removed: whatever is written there says so
                os.chdir(self.directory)


def _opened_again(descriptor: int) -> object:
    """A standard stream that the program closed, whose file Python leaves open; None if that is closed, too."""
    try:
        return open(descriptor, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    except OSError:
        return None
