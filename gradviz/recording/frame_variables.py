"""Reads variables of a running frame without side effects on it."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

_CO_OPTIMIZED = 0x1


def local_variables(frame: FrameType) -> dict[str, Any]:
    """A copy of a frame's variables that keeps nothing alive.

    Up to Python 3.12, reading ``f_locals`` of a function makes a snapshot that the frame keeps until the function
    returns, and with it every tensor in it. So it is emptied, unless the program itself holds it (``locals()``).
    """
    snapshot = frame.f_locals
    copy = dict(snapshot)
    is_snapshot = sys.version_info < (3, 13) and frame.f_code.co_flags & _CO_OPTIMIZED
    if is_snapshot and _references(snapshot) == _REFERENCES_OF_OURS:
        snapshot.clear()
    return copy


def _references(snapshot: dict[str, Any]) -> int:
    return sys.getrefcount(snapshot)


def _references_of_ours(frame: FrameType) -> int:
    # The frame's own, `snapshot` here, and those of the call, whose number depends on the release of Python.
    snapshot = frame.f_locals
    return _references(snapshot)


_REFERENCES_OF_OURS = (lambda: _references_of_ours(sys._getframe()))()
"""To a snapshot of a function's variables that nobody else holds."""
