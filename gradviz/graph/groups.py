"""What the members of one container are grouped into before they are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Reason = Literal["repeat", "line", "function", "order"]


@dataclass(frozen=True, slots=True)
class Group:
    """Members of one container that are drawn as one box: those at places `start` to `stop`."""

    start: int
    stop: int
    entries: tuple[Entry, ...]
    """What one repetition consists of: of the first, where there are several."""
    count: int = 1
    reason: Reason = "repeat"
    sizes_differ: bool = False
    """Its repetitions are alike but for the sizes of their tensors."""


Entry = int | Group
"""The place of one member of a container, or a group of several."""


def first_place(entry: Entry) -> int:
    return entry.start if isinstance(entry, Group) else entry


def places(entry: Entry) -> tuple[int, int]:
    """The members that an entry holds, from first to one after the last."""
    return (entry.start, entry.stop) if isinstance(entry, Group) else (entry, entry + 1)
