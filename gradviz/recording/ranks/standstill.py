"""Notices that a rank does not get on, and says where it stands.

A rank that waits in a collective for one that never comes runs no Python on its main thread. So another thread looks at
the main thread's stack: as long as it changes, the program gets on.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import FrameType

from gradviz.capture.rank_end import POINT_TO_POINT, WRAPPER, CodeLine, Stand
from gradviz.recording.ranks.code_lines import code_line
from gradviz.recording.ranks.last_message import last_message
from gradviz.recording.run.file_kinds import STAND_IN, is_library_file

MAX_LINES = 16
_PACKAGE = str(Path(__file__).parents[2]) + "/"

_COLLECTIVES = "torch/distributed/distributed_c10d.py", "torch/distributed/_functional_collectives.py"
_NO_COLLECTIVES = "wrapper", "_distributed_excepthook", "wait", "trigger_wait", "__torch_dispatch__"
"""Functions there that call none."""
_WRAPPER = "torch/nn/parallel/distributed.py"
_PIPELINES = "torch/distributed/pipelining/"
_ENGINE_FILE = "torch/autograd/graph.py"


class Standstill:
    """Looks at the main thread's stack at every `look`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stack: tuple[tuple[int, int], ...] = ()
        self._since = clock()

    def look(self) -> float:
        """For how many seconds the main thread has not moved; while it works for gradviz, it moves."""
        frame = _main_frame()
        stack = tuple((id(each.f_code), each.f_lasti) for each, _ in walk_stack(frame)) if frame is not None else ()
        if stack != self._stack or (frame is not None and is_of_gradviz(frame.f_code.co_filename)):
            self._stack, self._since = stack, self._clock()
        return self._clock() - self._since


def where_it_stands() -> Stand:
    """Where the main thread is now."""
    return stand_of(main_stack())


def main_stack() -> list[tuple[str, int, str]]:
    """File, line and function of each frame of the main thread, the innermost first."""
    return _described(walk_stack(_main_frame()))


def where_it_raised(error: BaseException) -> Stand:
    """Where the program stood when it raised this."""
    return stand_of(reversed(_described(walk_tb(error.__traceback__))))


def _described(frames: Iterable[tuple[FrameType, int]]) -> list[tuple[str, int, str]]:
    return [(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in frames]


def is_of_gradviz(file: str) -> bool:
    """Whether a frame of this file is work of gradviz."""
    return file.startswith(_PACKAGE)


def is_of_collectives(file: str) -> bool:
    """Whether this file has the functions that call collectives."""
    return file.endswith(_COLLECTIVES)


def stand_of(frames: Iterable[tuple[str, int, str]]) -> Stand:
    """Where a stack stands: file, line and function of each frame, the innermost first."""
    known = list(frames)
    waiting = [name for file, _, name in known if is_of_collectives(file)]
    if known and known[0][0].endswith(_WRAPPER):  # whose collectives are called by compiled code
        waiting.append(WRAPPER)
    own = [frame for frame in known if _is_own(frame)]
    lines = tuple(code_line(*frame) for frame in own[:MAX_LINES])
    collective = next((name for name in reversed(waiting) if name not in _NO_COLLECTIVES), "")
    waits_for_message = collective in POINT_TO_POINT or (not collective and _is_waiting_for_work(known, lines))
    return Stand(lines, collective, is_in_engine(known), last_message() if waits_for_message else None)


def _is_waiting_for_work(frames: Sequence[tuple[str, int, str]], lines: Sequence[CodeLine]) -> bool:
    """Whether the innermost frame is one that waits for what torch.distributed does meanwhile, which has no frame."""
    if not frames:
        return False
    if _PIPELINES in frames[0][0]:
        return True
    return bool(lines) and _is_own(frames[0]) and ".wait(" in lines[0].text


def is_in_engine(frames: Iterable[tuple[str, int, str]]) -> bool:
    """Whether autograd's engine runs in this stack."""
    return any(file.endswith(_ENGINE_FILE) and name == "_engine_run_backward" for file, _, name in frames)


def innermost_line(frames: Iterable[tuple[str, int, str]]) -> CodeLine | None:
    """The innermost line of the program on a stack."""
    frame = next((frame for frame in frames if _is_own(frame)), None)
    return None if frame is None else code_line(*frame)


def _is_own(frame: tuple[str, int, str]) -> bool:
    file, _, function = frame
    # The frame that stands in for a line of the program is above the frame of the program itself.
    return not (function == STAND_IN or file.startswith("<") or is_of_gradviz(file) or is_library_file(file))


def _main_frame() -> FrameType | None:
    return sys._current_frames().get(threading.main_thread().ident or 0)
