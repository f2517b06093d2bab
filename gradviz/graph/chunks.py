"""Cuts a container with more members than anyone reads into boxes: by source line, by function, else by order.

Only neighbours in creation order go into one box, so that no box can come to depend on itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import groupby

from gradviz.graph.groups import Entry, Group, Reason, first_place, places

Weigh = Callable[[Entry], int]
"""How many things are drawn for an entry while it is folded."""
Origin = Callable[[int], Hashable]
"""Where in the source the member at a place comes from; None where that is not known."""


def chunk(
    entries: Sequence[Entry], weigh: Weigh, limit: int, origins: Sequence[tuple[Reason, Origin]]
) -> tuple[Entry, ...]:
    """`entries` so grouped that they weigh no more than `limit`, and none of the groups does when it is opened."""
    if _weight(entries, weigh) <= limit:
        return tuple(entries)
    for reason, origin in origins:
        grouped = _by_origin(entries, weigh, limit, reason, origin)
        if len(grouped) > 2 and _weight(grouped, weigh) <= limit:
            return tuple(grouped)
    return tuple(_by_order(entries, weigh, limit))


def _weight(entries: Sequence[Entry], weigh: Weigh) -> int:
    return sum(weigh(entry) for entry in entries)


def _by_origin(entries: Sequence[Entry], weigh: Weigh, limit: int, reason: Reason, origin: Origin) -> list[Entry]:
    grouped: list[Entry] = []
    for key, neighbours in groupby(entries, key=lambda entry: origin(first_place(entry))):
        members = list(neighbours)
        if key is None or len(members) == 1:
            grouped.extend(members)
        else:
            inside = members if _weight(members, weigh) <= limit else _by_order(members, weigh, limit)
            grouped.append(_group(inside, reason))
    return grouped


def _by_order(entries: Sequence[Entry], weigh: Weigh, limit: int) -> list[Entry]:
    """Groups of neighbours, and groups of such groups, until few are left."""
    grouped = list(entries)
    while len(grouped) > 2 and _weight(grouped, weigh) > limit:
        grouped = [_group(part, "order") if len(part) > 1 else part[0] for part in _parts(grouped, weigh, limit // 3)]
    return grouped


def _parts(entries: Sequence[Entry], weigh: Weigh, room: int) -> list[list[Entry]]:
    parts: list[list[Entry]] = []
    filled = room
    for entry in entries:
        weight = weigh(entry)
        if filled + weight > room and not (parts and len(parts[-1]) < 2):
            parts.append([])
            filled = 0
        parts[-1].append(entry)
        filled += weight
    return parts


def _group(entries: Sequence[Entry], reason: Reason) -> Group:
    return Group(first_place(entries[0]), places(entries[-1])[1], tuple(entries), reason=reason)
