"""What a rank sent to single other ranks, and received from them, as the stages of a pipeline do."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gradviz.graph.bounded_types import Count, LineNumber, Size

Direction = Literal["sent", "received"]


class PeerTraffic(Struct, frozen=True, omit_defaults=True):
    """All tensors of one shape that one line sent to one rank, or received from it."""

    direction: Direction
    peer: Count
    calls: Count
    bytes: Count
    """Of all calls."""
    shape: tuple[Size, ...] = ()
    dtype: str = ""
    first: Count = 1
    """Which one the first of them is, of all that this rank sent to that one, or received from it, counted from 1."""
    file: str = ""
    line: LineNumber = 0
    """The line of the program."""
