"""Runs a function on a thread that the program does not notice."""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


def result_of_own_thread(work: Callable[[], _Result]) -> _Result:
    """What `work` returns or raises on a new thread. `threading` would run the program's tracers there."""
    results: list[_Result] = []
    failures: list[BaseException] = []
    is_done = allocate_lock()
    is_done.acquire()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as failure:
            failures.append(failure)
        finally:
            is_done.release()

    start_new_thread(run, ())
    is_done.acquire()
    if failures:
        raise failures[0]
    return results[0]
