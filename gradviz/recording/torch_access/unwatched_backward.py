"""Backward calls that gradviz makes itself: the recorder does not take them for the program's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Unwatched(threading.local):
    is_on = False


_unwatched = _Unwatched()


@contextmanager
def unwatched() -> Iterator[None]:
    """Backward calls of this thread are made by gradviz, not by the program."""
    before, _unwatched.is_on = _unwatched.is_on, True
    try:
        yield
    finally:
        _unwatched.is_on = before


def is_unwatched() -> bool:
    """True inside `unwatched`, on this thread."""
    return _unwatched.is_on
