"""Calls a function as if the program's own line had called it.

torch prints a warning with the file and line of the Python frame that called it. Python's filters, and its list of
warnings already printed, use that frame's module. With the recorder in between, that frame would be one of gradviz for
every warning. So the call is made by a small function that has the file, line and globals of the program's frame.
Functions written in Python name a frame further up (``stacklevel``), and the engine runs hooks written in Python: for
both, the frames above are imitated as well.
"""

from __future__ import annotations

from types import CodeType, FrameType, FunctionType
from typing import Any

from gradviz.recording.run.file_kinds import STAND_IN, is_gradviz_code, is_hook_detour
from gradviz.recording.run.user_traceback import BOUNDARY

CALLERS = 4
"""Frames that are imitated where the ones above matter: torch's own warnings go up three at most, as in ``softmax`` and
in full backward hooks."""

_PATTERN: CodeType = (lambda function, args, kwargs: function(*args, **kwargs)).__code__


class StandIns:
    """Makes functions that imitate frames: one code object for each instruction of the program that calls torch."""

    def __init__(self) -> None:
        self._codes: dict[tuple[int, int], CodeType] = {}
        self._originals: list[CodeType] = []
        """Keeps the code objects alive whose ids are keys."""
        self._verdicts: dict[int, int] = {}

    def call(self, frame: FrameType, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``function(*args, **kwargs)``, called from a frame that looks like `frame`."""
        return self._for(frame)(function, args, kwargs)

    def call_below_callers(self, frame: FrameType, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same, with up to `CALLERS` frames above `frame` as well."""
        callers = self._callers(frame)
        for caller in callers[:-1]:
            function, args, kwargs = self._for(caller), (function, args, kwargs), _NOTHING
        return self._for(callers[-1] if callers else frame)(function, args, kwargs)

    def _callers(self, frame: FrameType | None) -> list[FrameType]:
        """The frame and those above it, without gradviz's and without the one that torch adds for a module's hooks."""
        callers: list[FrameType] = []
        verdicts = self._verdicts
        while frame is not None and len(callers) < CALLERS:
            code = frame.f_code
            verdict = verdicts.get(id(code))
            if verdict is None:
                self._originals.append(code)
                verdict = verdicts[id(code)] = _judged(code)
            if verdict == _IS_END:
                break
            if verdict == _IS_CALLER:
                callers.append(frame)
            frame = frame.f_back
        return callers

    def _for(self, frame: FrameType) -> FunctionType:
        key = (id(frame.f_code), frame.f_lasti)
        code = self._codes.get(key)
        if code is None:
            self._originals.append(frame.f_code)
            code = self._codes[key] = _PATTERN.replace(
                co_filename=frame.f_code.co_filename, co_firstlineno=frame.f_lineno, co_name=STAND_IN
            )
        return FunctionType(code, frame.f_globals)


_NOTHING: dict[str, Any] = {}


_IS_CALLER, _IS_SKIPPED, _IS_END = range(3)


def _judged(code: CodeType) -> int:
    if is_gradviz_code(code) and code.co_name != STAND_IN:
        # Above the function that runs the program there is nothing of the program.
        return _IS_END if code is BOUNDARY else _IS_SKIPPED
    return _IS_SKIPPED if is_hook_detour(code) else _IS_CALLER
