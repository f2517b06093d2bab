"""Notices that a rank does not get on, and says where it stands.

A rank that waits in a collective for one that never comes runs no Python on its main thread. So another thread looks at
the main thread's stack: as long as it changes, the program gets on.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import FrameType
from typing import Any

from gradviz.capture.rank_end import CodeLine, Collective, Stand
from gradviz.recording.ranks.code_lines import code_line
from gradviz.recording.run.file_kinds import is_library_file

MAX_LINES = 16
MAX_COLLECTIVES = 64
_PACKAGE = str(Path(__file__).parents[2]) + "/"

_COLLECTIVES = "torch/distributed/distributed_c10d.py"
_WRAPPER = "torch/nn/parallel/distributed.py"
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
        if stack != self._stack or (frame is not None and frame.f_code.co_filename.startswith(_PACKAGE)):
            self._stack, self._since = stack, self._clock()
        return self._clock() - self._since


def where_it_stands() -> Stand:
    """Where the main thread is now."""
    frames = walk_stack(_main_frame())
    return stand_of((frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in frames)


def where_it_raised(error: BaseException) -> Stand:
    """Where the program stood when it raised this."""
    frames = reversed(list(walk_tb(error.__traceback__)))
    return stand_of((frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in frames)


def stand_of(frames: Iterable[tuple[str, int, str]]) -> Stand:
    """Where a stack stands: file, line and function of each frame, the innermost first."""
    known = list(frames)
    waiting = [name for file, _, name in known if file.endswith(_COLLECTIVES)]
    if known and known[0][0].endswith(_WRAPPER):  # whose collectives are called by compiled code
        waiting.append("forward")
    own = [frame for frame in known if _is_own(frame[0])]
    return Stand(
        tuple(code_line(*frame) for frame in own[:MAX_LINES]),
        next((name for name in reversed(waiting) if name != "wrapper"), ""),
        _has_engine(known),
    )


def collectives_called() -> tuple[tuple[Collective, ...], int]:
    """The last collectives that torch's flight recorder has seen, and how many it has seen."""
    if "torch" not in sys.modules:
        return (), 0
    from gradviz.recording.torch_access.distributed.flight_recorder import entries

    found = entries()
    return tuple(map(_collective, found[-MAX_COLLECTIVES:])), len(found)


def _collective(entry: dict[str, Any]) -> Collective:
    frames = [(each["filename"], each["line"], each["name"]) for each in entry.get("frames", ())]
    group = entry.get("process_group") or ("",)
    return Collective(
        name=str(entry["profiling_name"]).rpartition(":")[2],
        number=int(entry["p2p_seq_id"] if entry.get("is_p2p") else entry["collective_seq_id"]),
        group=f"{group[0]}{' p2p' if entry.get('is_p2p') else ''}",
        shapes=tuple(tuple(shape) for shape in entry["input_sizes"]),
        dtypes=tuple(str(each) for each in entry.get("input_dtypes", ())),
        at=_innermost(frames),
        is_in_backward=_has_engine(frames),
        is_over=bool(entry.get("retired")),
    )


def _innermost(frames: Iterable[tuple[str, int, str]]) -> CodeLine | None:
    frame = next((frame for frame in frames if _is_own(frame[0])), None)
    return None if frame is None else code_line(*frame)


def _has_engine(frames: Iterable[tuple[str, int, str]]) -> bool:
    return any(file.endswith(_ENGINE_FILE) and name == "_engine_run_backward" for file, _, name in frames)


def _is_own(file: str) -> bool:
    return not (file.startswith(("<", _PACKAGE)) or is_library_file(file))


def _main_frame() -> FrameType | None:
    return sys._current_frames().get(threading.main_thread().ident or 0)
