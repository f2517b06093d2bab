"""Runs a function on a thread that the program does not notice."""

from __future__ import annotations

from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable
from typing import TypeVar

import torch

_Result = TypeVar("_Result")

_running: set[int] = set()
"""Identifiers of such threads while they run; the system gives them to other threads afterwards."""


def is_own(thread: int) -> bool:
    """Whether the thread with this identifier runs such a function, and not code of the program."""
    return thread in _running


def result_of_own_thread(work: Callable[[], _Result]) -> _Result:
    """What `work` returns or raises on a new thread. `threading` would run the program's tracers there."""
    results: list[_Result] = []
    failures: list[BaseException] = []
    is_done = allocate_lock()
    is_done.acquire()

    def run() -> None:
        _running.add(get_ident())
        try:
            # Until a thread asks for it, some operators compute there with another number of threads than the program
            # has set, and round otherwise.
            torch.get_num_threads()
            results.append(work())
        except BaseException as failure:
            failures.append(failure)
        finally:
            _running.discard(get_ident())
            is_done.release()

    start_new_thread(run, ())
    is_done.acquire()
    if failures:
        raise failures[0]
    return results[0]
