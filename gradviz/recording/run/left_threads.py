"""Threads that a program leaves running when its own code has ended: Python waits for them before it ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container
from threading import Thread
from threading import enumerate as running_threads

_SECONDS = 0.05
"""How long one look at the threads may be behind."""


def wait_for_threads(known: Container[Thread], is_stopped: Callable[[], bool]) -> None:
    """Wait until only the `known` threads run, and those that do not keep Python from ending."""
    while not is_stopped() and (left := _left(known)) is not None:
        left.join(_SECONDS)


def _left(known: Container[Thread]) -> Thread | None:
    others = (each for each in running_threads() if each not in known and not each.daemon)
    return next((each for each in others if not _is_idle_worker(each)), None)


def _is_idle_worker(thread: Thread) -> bool:
    """Whether it is a thread of a pool that waits for work: it ends only when Python asks it to."""
    work = getattr(sys.modules.get("concurrent.futures.thread"), "_threads_queues", {}).get(thread)
    if work is None or not work.empty():
        return False
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is None or frame.f_code.co_name == "_worker"
