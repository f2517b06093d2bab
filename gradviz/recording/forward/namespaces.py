"""The variables that frames on the stack, or of a traceback, hold: the user's own before those of libraries."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import FrameType, TracebackType
from typing import Any

from gradviz.recording.forward.tensors_in_containers import HOLDS_NOTHING
from gradviz.recording.frame_variables import local_variables
from gradviz.recording.run.file_kinds import is_gradviz_code, is_library_file, is_torch_file
from gradviz.recording.run.user_traceback import BOUNDARY

CO_OPTIMIZED = 0x1
"""The flag of the code of a function."""


def own_namespaces(frame: FrameType | None) -> Iterator[Mapping[str, Any]]:
    """Variables of the user's own functions from `frame` upwards, innermost first, and of their modules."""
    seen: set[int] = set()
    while frame is not None and frame.f_code is not BOUNDARY:
        if not is_gradviz_code(frame.f_code) and not is_library_file(frame.f_code.co_filename):
            if frame.f_code.co_flags & CO_OPTIMIZED:
                yield local_variables(frame)
            if id(frame.f_globals) not in seen:
                seen.add(id(frame.f_globals))
                yield frame.f_globals
        frame = frame.f_back


def own_objects_in_libraries(frame: FrameType | None) -> Iterator[Mapping[str, Any]]:
    """Objects of classes that the user wrote, in variables of libraries from `frame` upwards, named after their class.

    A library that runs the training loop calls backward after the user's method has returned, so only its own
    variables lead to the user's module.
    """
    while frame is not None and frame.f_code is not BOUNDARY:
        file = frame.f_code.co_filename
        if is_library_file(file) and not is_torch_file(file) and frame.f_code.co_flags & CO_OPTIMIZED:
            yield {
                type(value).__name__.lower(): value
                for value in local_variables(frame).values()
                if type(value) not in HOLDS_NOTHING and is_of_the_program(type(value))
            }
        frame = frame.f_back


def namespaces_of_traceback(trace: TracebackType | None, *, with_libraries: bool = True) -> list[Mapping[str, Any]]:
    """Variables of every frame that an exception passed through: the user's own first, innermost first."""
    own: list[Mapping[str, Any]] = []
    others: list[Mapping[str, Any]] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if not is_gradviz_code(code):
            (others if is_library_file(code.co_filename) else own).append(local_variables(trace.tb_frame))
        trace = trace.tb_next
    return [*reversed(own), *reversed(others if with_libraries else [])]


def is_of_the_program(kind: type) -> bool:
    """Whether the user wrote that class: optimizers and other objects of libraries are no names for tensors."""
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None)
    if type(file) is str:
        return not is_library_file(file)
    return kind.__module__ == "__main__"
