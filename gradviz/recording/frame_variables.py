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
    if is_snapshot and not _has_other_holders(snapshot, frame):
        snapshot.clear()
    return copy


def _has_other_holders(snapshot: dict[str, Any], frame: FrameType) -> bool:
    # References: the frame's own, `snapshot` in the caller, our argument, and the call's own.
    return sys.getrefcount(snapshot) > 4
