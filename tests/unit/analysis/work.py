"""How much work something is, where a clock would tell of the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_run(ask: Callable[[], object]) -> int:
    """Lines of Python that run, each time that they do."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        ask()
    finally:
        sys.settrace(before)
    return count
