"""Notices that a rank does not get on, and says where it stands.

A rank that waits in a collective for one that never comes runs no Python on its main thread. So another thread looks at
the main thread's stack: as long as it changes, the program gets on.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import PurePath
from traceback import walk_stack
from types import FrameType

from msgspec import Struct

from gradviz.recording.run.file_kinds import own_line

_COLLECTIVES = "torch/distributed/distributed_c10d.py"
_ENGINE = "torch/autograd/graph.py", "_engine_run_backward"


class Stand(Struct, frozen=True, omit_defaults=True):
    """Where a rank stands."""

    line: str = ""
    """The innermost line of the program, ``train.py:12``."""
    collective: str = ""
    """The function of torch.distributed in which it waits."""
    is_in_backward: bool = False
    backward_calls: int = 0
    """How many it has begun."""


class Standstill:
    """Looks at the main thread's stack at every `look`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stack: tuple[tuple[int, int], ...] = ()
        self._since = clock()

    def look(self) -> float:
        """For how many seconds the main thread has not moved."""
        frame = _main_frame()
        stack = tuple((id(each.f_code), each.f_lasti) for each, _ in walk_stack(frame)) if frame is not None else ()
        if stack != self._stack:
            self._stack, self._since = stack, self._clock()
        return self._clock() - self._since


def where_it_stands(backward_calls: int) -> Stand:
    """Where the main thread is now."""
    frames = list(walk_stack(_main_frame()))
    location = own_line((frame.f_code, line) for frame, line in frames)
    waiting = [frame.f_code.co_name for frame, _ in frames if frame.f_code.co_filename.endswith(_COLLECTIVES)]
    in_engine = any(
        frame.f_code.co_filename.endswith(_ENGINE[0]) and frame.f_code.co_name == _ENGINE[1] for frame, _ in frames
    )
    return Stand(
        "" if location is None else f"{PurePath(location[0]).name}:{location[1]}",
        next((name for name in reversed(waiting) if name != "wrapper"), ""),
        in_engine,
        backward_calls,
    )


def _main_frame() -> FrameType | None:
    return sys._current_frames().get(threading.main_thread().ident or 0)
