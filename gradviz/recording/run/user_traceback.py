"""Shows the user's exception as Python would: without frames of gradviz, and without those it caused in torch."""

from __future__ import annotations

import dis
import linecache
import traceback
from functools import cache
from types import CodeType, TracebackType
from typing import Any

from gradviz.capture.capture import ScriptError
from gradviz.recording.run.file_kinds import is_gradviz_code, is_hook_detour, own_line


def script_error(error: BaseException, *, in_backward: bool) -> ScriptError:
    """What a capture keeps of an exception, which is not changed."""
    trace = traceback_without_our_frames(error)
    text = "".join(traceback.format_exception(type(error), error, trace))
    return ScriptError(type(error).__name__, str(error), text, own_line_of(trace), in_backward)


def traceback_without_our_frames(error: BaseException) -> TracebackType | None:
    """A copy of its traceback without frames of gradviz, and without those they caused in torch."""
    following: TracebackType | None = None
    for entry in reversed(_kept_entries(error.__traceback__)):
        following = TracebackType(following, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return following


def _linked_in_place(error: BaseException) -> TracebackType | None:
    """The same of its own entries: where a ``with`` block ends, Python 3.10 puts back the first one that it had."""
    following: TracebackType | None = None
    for entry in reversed(_kept_entries(error.__traceback__)):
        entry.tb_next = following
        following = entry
    return following


def without_our_frames(error: BaseException) -> BaseException:
    """Remove frames of gradviz from the tracebacks of an exception and of all that it was raised from."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        current.__traceback__ = _linked_in_place(current)
        current = current.__cause__ or current.__context__
    return error


def _kept_entries(trace: TracebackType | None) -> list[TracebackType]:
    kept: list[TracebackType] = []
    while trace is not None:
        name = trace.tb_frame.f_code.co_name
        if is_gradviz_code(trace.tb_frame.f_code):
            if trace.tb_frame.f_code is BOUNDARY:
                kept.clear()  # frames above belong to the command line
            elif name == "__torch_function__":
                _drop_detour(kept)
        elif not is_hook_detour(trace.tb_frame.f_code):
            kept.append(trace)
        elif kept:
            kept[-1] = _as_called_directly(kept[-1])
        trace = trace.tb_next
    return kept


def _drop_detour(kept: list[TracebackType]) -> None:
    """A torch function written in Python calls itself again through the mode: drop its first call."""
    if kept and kept[-1].tb_frame.f_code.co_name == "handle_torch_function":
        kept.pop()
        if kept:
            kept.pop()


def _as_called_directly(entry: TracebackType) -> TracebackType:
    """The entry of `Module._call_impl` as it would be without hooks: at its other call of ``forward``."""
    direct = direct_call_in(entry.tb_frame.f_code)
    return TracebackType(None, entry.tb_frame, *direct) if direct is not None else entry


@cache
def direct_call_in(code: CodeType) -> tuple[int, int] | None:
    """Instruction and line at which `Module._call_impl` calls ``forward`` if there is no hook."""
    calls = [each.offset for each in dis.get_instructions(code) if each.opname.startswith("CALL")]
    for start, end, line in code.co_lines():
        if line and "forward_call(" in linecache.getline(code.co_filename, line):
            for offset in calls:
                if start <= offset < end:
                    return offset, line
    return None


def own_line_of(trace: TracebackType | None) -> tuple[str, int] | None:
    """File and line of the innermost frame of a traceback that runs the user's own code."""
    frames = list(traceback.walk_tb(trace))
    return own_line((frame.f_code, line) for frame, line in reversed(frames))


# -- Where the program's part of a stack begins ------------------------------------------------------------------------


def run_users_code(code: CodeType, namespace: dict[str, Any]) -> None:
    """Frames below this one in a stack belong to the user, and those above it to gradviz."""
    exec(code, namespace)


BOUNDARY = run_users_code.__code__
