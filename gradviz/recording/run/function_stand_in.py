"""Calls a function as if the program's own line had called it.

torch prints a warning with the file and line of the Python frame that called it, and Python's filters and its memory
of what was printed already go by that frame's module. While the recorder stands in between, that frame would be ours
for every warning of the program. So the call is made from a small function that carries the file, line and globals
of the frame that it stands in for. Functions written in Python name a frame further up (``stacklevel``): for them, and
for the engine, which runs hooks written in Python, the frames above are stood in for as well.
"""

from __future__ import annotations

from types import CodeType, FrameType, FunctionType
from typing import Any

from gradviz.recording.run.file_kinds import STAND_IN, is_gradviz_code, is_hook_detour
from gradviz.recording.run.user_traceback import BOUNDARY

CALLERS = 4
"""Frames that are stood in for where the ones above count: the most that torch's own warnings go up, as they do in
``softmax`` and in full backward hooks, is three."""

_PATTERN: CodeType = (lambda function, args, kwargs: function(*args, **kwargs)).__code__


class StandIns:
    """Makes stand-ins for frames; one code object for each place of the program that calls torch."""

    def __init__(self) -> None:
        self._codes: dict[tuple[int, int], CodeType] = {}
        self._originals: list[CodeType] = []
        """Keeps alive the code objects whose ids are keys."""
        self._verdicts: dict[int, int] = {}

    def call(self, frame: FrameType, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``function(*args, **kwargs)``, with a frame that looks like `frame`."""
        return self._for(frame)(function, args, kwargs)

    def call_below_callers(self, frame: FrameType, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same with those above `frame` as well, as many as `CALLERS`."""
        callers = self._callers(frame)
        for caller in callers[:-1]:
            function, args, kwargs = self._for(caller), (function, args, kwargs), _NOTHING
        return self._for(callers[-1] if callers else frame)(function, args, kwargs)

    def _callers(self, frame: FrameType | None) -> list[FrameType]:
        """The frame and those above it, but for ours, and the one that torch adds to a module's call for our hooks."""
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
        # Below the function that runs the program there is nothing of it.
        return _IS_END if code is BOUNDARY else _IS_SKIPPED
    return _IS_SKIPPED if is_hook_detour(code) else _IS_CALLER
