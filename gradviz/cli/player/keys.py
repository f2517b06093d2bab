"""The keys that a user presses, one by one, and changes of the window's size.

Problems solved here:

* What is read from a terminal holds several keys if they arrive together, as while an arrow is held down, or over a
  slow line.
* Over a slow line, the code of one key can arrive in two parts.
* A terminal that is switched to single keys for each key anew forgets those that were pressed in between.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

_KEY = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Za-z]|.", re.DOTALL)
"""The code of a key with a name, such as an arrow, or one character."""
_PART = re.compile(r"\x1b(O|\[[0-9;]*)?$")
"""The beginning of such a code, at the end of what was read. Escape alone is a key, too."""
_PATIENCE = 0.05
"""Seconds until the rest of a code has arrived."""
_MAX_READ = 1024


class Keys:
    """Splits what a terminal sends into keys."""

    def __init__(self, read: Callable[[], str], more_comes: Callable[[], bool]) -> None:
        """`read` waits for input; `more_comes` says whether more input arrives within a moment."""
        self._read, self._more_comes = read, more_comes
        self._waiting: deque[str] = deque()

    def next(self) -> str:
        """The next key; waits for it. Raises `EOFError` at the end of the input."""
        if not self._waiting:
            text = self._read()
            while _PART.search(text) and self._more_comes():
                text += self._read()
            if not text:
                raise EOFError
            self._waiting.extend(_KEY.findall(text))
        return self._waiting.popleft()


@contextmanager
def keys_of_terminal() -> Iterator[Keys]:
    """The keys pressed in the terminal, which sends each at once, and does not print it, until the end of the block."""
    if sys.platform == "win32":
        yield Keys(click.getchar, lambda: False)
        return
    import termios
    import tty
    from select import select

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal, termios.TCSADRAIN)
    try:
        yield Keys(
            lambda: os.read(terminal, _MAX_READ).decode(errors="replace"),
            lambda: bool(select([terminal], [], [], _PATIENCE)[0]),
        )
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


@contextmanager
def redrawing_on_resize(redraw: Callable[[], None]) -> Iterator[None]:
    """Call `redraw` whenever the window changes its size, also while a key is awaited; not on Windows."""
    resized = getattr(signal, "SIGWINCH", None)
    if resized is None:
        yield
        return
    before = signal.signal(resized, lambda *_: redraw())
    try:
        yield
    finally:
        signal.signal(resized, before)
