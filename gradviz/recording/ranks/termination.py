"""Notices SIGTERM, with which launchers end all ranks as soon as one has failed.

Python runs handlers of signals on the main thread, between two instructions. A rank that waits in a collective never
comes there. So a thread of its own reads the pipe into which Python's C handler writes, and ends the process as the
signal would have done: with its default action.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable


class TerminationNotice:
    """Calls `then` before SIGTERM ends this process, between `start` and `stop`."""

    def __init__(self, then: Callable[[], object]) -> None:
        self._then = then
        self._process = os.getpid()
        self._pipe: tuple[int, int] | None = None

    def start(self) -> None:
        """Begin to watch, if the program itself handles neither SIGTERM nor the pipe of signals."""
        if os.name != "posix" or self._pipe is not None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return
        pipe = os.pipe()
        os.set_blocking(pipe[1], False)
        other = signal.set_wakeup_fd(pipe[1], warn_on_full_buffer=False)
        if other != -1:
            signal.set_wakeup_fd(other)
            _close(pipe)
            return
        self._pipe = pipe
        signal.signal(signal.SIGTERM, _left_to_the_thread)
        os.register_at_fork(after_in_child=self._forget_in_child)
        threading.Thread(target=self._await, args=(pipe[0],), name="gradviz-sigterm", daemon=True).start()

    def stop(self) -> None:
        """Put back what was there; safe to call twice."""
        pipe, self._pipe = self._pipe, None
        if pipe is None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is _left_to_the_thread:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        other = signal.set_wakeup_fd(-1)
        if other != pipe[1]:
            signal.set_wakeup_fd(other)
        os.close(pipe[1])  # the thread reads the end of the pipe

    def _await(self, pipe: int) -> None:
        while True:
            numbers = os.read(pipe, 64)
            if not numbers:
                os.close(pipe)
                return
            if signal.SIGTERM in numbers and signal.getsignal(signal.SIGTERM) is _left_to_the_thread:
                try:
                    self._then()
                finally:
                    ctypes.pythonapi.PyOS_setsig(int(signal.SIGTERM), None)
                    os.kill(self._process, signal.SIGTERM)

    def _forget_in_child(self) -> None:
        """A forked child has no such thread, and shares the pipe."""
        pipe, self._pipe = self._pipe, None
        if pipe is None:
            return
        if signal.getsignal(signal.SIGTERM) is _left_to_the_thread:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        _close(pipe)


def _left_to_the_thread(*_: object) -> None:
    """The thread of `TerminationNotice` ends the process."""


def _close(pipe: tuple[int, int]) -> None:
    for end in pipe:
        os.close(end)
