"""Notices that the program is about to end its process without cleaning up: by ``os._exit`` or ``os.exec...``.

All functions of the family of ``os.exec...`` call ``os.execv`` or ``os.execve``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from gradviz.recording.torch_access.patches import Replacement


class SuddenEnds:
    """Calls `then`, with the name of the function, before such an end of this process, between `start` and `stop`."""

    def __init__(self, then: Callable[[str], None]) -> None:
        self._then = then
        self._process = os.getpid()
        self.exit_code: int | None = None
        """The code with which the program calls ``os._exit``."""
        self._replaced = {name: Replacement(f"os.{name}") for name in ("_exit", "execv", "execve")}

    def start(self) -> None:
        """Replace these functions."""
        for name, replacement in self._replaced.items():
            replacement.put(partial(self._telling, name))

    def stop(self) -> None:
        """Put them back; safe to call twice."""
        for replacement in self._replaced.values():
            replacement.take_back()

    def _telling(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def end(*args: Any, **kwargs: Any) -> Any:
            # A forked child ends like this as a rule, and a search in PATH tries files that do not exist.
            if os.getpid() == self._process and (name == "_exit" or _can_run(*args)):
                self.exit_code = args[0] if name == "_exit" and args and type(args[0]) is int else None
                self._then(f"os.{name}")
            return original(*args, **kwargs)

        return end


def _can_run(path: Any = None, *_: Any) -> bool:
    try:
        return os.access(path, os.X_OK)
    except (TypeError, ValueError):
        return False  # os.exec... raises the same
