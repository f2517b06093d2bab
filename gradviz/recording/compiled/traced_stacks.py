"""Reads the stack that torch writes, as text, into each node of a traced graph."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from torch import fx

_FRAME = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)


class TracedFrame(NamedTuple):
    """One line of the stack."""

    file: str
    line: int
    function: str


def frames_of(node: fx.Node) -> Iterator[TracedFrame]:
    """The frames in which a traced node was made, the outermost first; none if torch noted none."""
    for frame in _FRAME.finditer(node.meta.get("stack_trace") or ""):
        yield TracedFrame(frame["file"], int(frame["line"]), frame["function"])
