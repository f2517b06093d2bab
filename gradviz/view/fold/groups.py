"""The groups into which the members of one container are put before they are drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Reason = Literal["repeat", "line", "function", "order"]


@dataclass(frozen=True, slots=True)
class Group:
    """Members of one container that are drawn as one box: those from position `start` up to `stop`."""

    start: int
    stop: int
    entries: tuple[Entry, ...]
    """The members of one repetition: of the first, where there are several."""
    count: int = 1
    reason: Reason = "repeat"
    sizes_differ: bool = False
    """Its repetitions differ only in the sizes of their tensors."""


Entry = int | Group
"""The position of one member in its container, or a group of several members."""


def each_repetition(group: Group) -> tuple[Entry, ...]:
    """An entry for each repetition of a group; `Group.entries` has only the first."""
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
    """Positions of the members that an entry holds: the first, and one after the last."""
    return (entry.start, entry.stop) if isinstance(entry, Group) else (entry, entry + 1)
