"""What the members of one container are grouped into before they are drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
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


def each_repetition(group: Group) -> tuple[Entry, ...]:
    """An entry for every repetition of a group, where `Group.entries` is the first of them."""
    period = (group.stop - group.start) // group.count
    found: list[Entry] = []
    for by in range(0, group.stop - group.start, period):
        entries = tuple(_moved(entry, by) for entry in group.entries)
        start = group.start + by
        found.append(entries[0] if len(entries) == 1 else Group(start, start + period, entries))
    return tuple(found)


def _moved(entry: Entry, by: int) -> Entry:
    if isinstance(entry, int):
        return entry + by
    entries = tuple(_moved(inner, by) for inner in entry.entries)
    return replace(entry, start=entry.start + by, stop=entry.stop + by, entries=entries)


def first_position(entry: Entry) -> int:
    return entry.start if isinstance(entry, Group) else entry


def member_range(entry: Entry) -> tuple[int, int]:
    """The members that an entry holds, from first to one after the last."""
    return (entry.start, entry.stop) if isinstance(entry, Group) else (entry, entry + 1)
