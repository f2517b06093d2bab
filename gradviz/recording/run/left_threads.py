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
    # Idle workers of a pool end only when Python asks them to.
    workers = getattr(sys.modules.get("concurrent.futures.thread"), "_threads_queues", ())
    others = (each for each in running_threads() if each not in known and each not in workers)
    return next((each for each in others if not each.daemon), None)
