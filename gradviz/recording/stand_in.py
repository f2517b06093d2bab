"""Calls a function as if the program's own line had called it.

torch prints a warning with the file and line of the Python frame that called it, and Python's filters and its memory
of what was printed already go by that frame's module. While the recorder stands in between, that frame would be ours
for every warning of the program. So the call is made from a small function that carries the file, line and globals
of the frame that it stands in for.
"""

from __future__ import annotations

from types import CodeType, FrameType, FunctionType
from typing import Any

from gradviz.recording.file_kinds import STAND_IN

_PATTERN: CodeType = (lambda function, args, kwargs: function(*args, **kwargs)).__code__


class StandIns:
    """Makes stand-ins for frames; one code object for each place of the program that calls torch."""

    def __init__(self) -> None:
        self._codes: dict[tuple[int, int], CodeType] = {}
        self._originals: list[CodeType] = []
        """Keeps alive the code objects whose ids are keys."""

    def call(self, frame: FrameType, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``function(*args, **kwargs)``, with a frame that looks like `frame`."""
        key = (id(frame.f_code), frame.f_lasti)
        code = self._codes.get(key)
        if code is None:
            self._originals.append(frame.f_code)
            code = self._codes[key] = _PATTERN.replace(
                co_filename=frame.f_code.co_filename, co_firstlineno=frame.f_lineno, co_name=STAND_IN
            )
        return FunctionType(code, frame.f_globals)(function, args, kwargs)
