"""How the members of every container are grouped: repeats into one box, lists that are too long into parts.

Alike containers are arranged alike, so each signature is arranged once, however many blocks a model has.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import groupby

from gradviz.graph.model import CallSite, Graph
from gradviz.graph.query.own_line import own_lines
from gradviz.view.fold.groups import Entry, Group, Reason, first_position, member_range
from gradviz.view.fold.nesting import Nesting
from gradviz.view.fold.repeats import RepeatFolder
from gradviz.view.fold.weights import Weights


@dataclass(frozen=True, slots=True)
class Limits:
    """How many things a container may show before more of them are grouped."""

    readable: int
    """With more, repetitions that differ only in sizes are grouped, too."""
    largest: int
    """With more, neighbours that have nothing in common are grouped."""


class Arrangements:
    """The entries of each container, computed when first needed. With `limits` None nothing is grouped."""

    def __init__(
        self, graph: Graph, nesting: Nesting, weights: Weights, repeats: RepeatFolder, limits: Limits | None
    ) -> None:
        self.graph, self.nesting, self.weights, self.limits = graph, nesting, weights, limits
        self._repeats = repeats
        self._done: dict[int, tuple[Entry, ...]] = {}
        self._own_lines = own_lines(graph)

    def entries_of(self, container: int) -> tuple[Entry, ...]:
        """The grouped members of `container`; similar containers have the same ones."""
        signature = self._repeats.signature_of(container)
        if signature not in self._done:
            self._done[signature] = self._arrange(container)
        return self._done[signature]

    def _arrange(self, container: int) -> tuple[Entry, ...]:
        if self.limits is None:
            return tuple(range(len(self.nesting.units[container])))
        readable, largest = self.limits.readable, self.limits.largest
        sites = [self._call_site(unit) for unit in self.nesting.units[container]]

        def weigh(entry: Entry) -> int:
            return self.weights.of_folded(container, entry)

        entries = self._repeats.fold(
            container,
            [0 if site is None else site.line for site in sites],
            lambda entries: _weight(entries, weigh) <= readable,
        )
        by_line = [None if site is None else (site.file, site.line) for site in sites]
        by_function = [None if site is None else (site.file, site.function) for site in sites]
        return chunk(entries, weigh, largest, [("line", by_line.__getitem__), ("function", by_function.__getitem__)])

    def _call_site(self, unit: int) -> CallSite | None:
        """The user's own line that made the first operation of a unit."""
        first = self.nesting.sequence[self.nesting.span(unit)[0]]
        site = self.graph.nodes[first].call_site
        return None if site is None else self.graph.call_sites[self._own_lines[site]]


# Cuts a container that is too long to read into boxes: by source line, by function, else by order.
#
# Only neighbours in creation order go into one box, so that no box can come to depend on itself.

Weigh = Callable[[Entry], int]
"""How many things are drawn for an entry while it is folded."""
Origin = Callable[[int], Hashable]
"""From where in the source a member comes, by its position; None where that is unknown."""


def chunk(
    entries: Sequence[Entry], weigh: Weigh, limit: int, origins: Sequence[tuple[Reason, Origin]]
) -> tuple[Entry, ...]:
    """`entries` grouped so that together they weigh no more than `limit`, nor does any group when it is opened."""
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
    for key, neighbours in groupby(entries, key=lambda entry: origin(first_position(entry))):
        members = list(neighbours)
        if key is None or len(members) == 1:
            grouped.extend(members)
        else:
            inside = members if _weight(members, weigh) <= limit else _by_order(members, weigh, limit)
            grouped.append(_group(inside, reason))
    return grouped


def _by_order(entries: Sequence[Entry], weigh: Weigh, limit: int) -> list[Entry]:
    """Put neighbours into groups, and groups into larger groups, until few are left."""
    grouped = list(entries)
    while len(grouped) > 2 and _weight(grouped, weigh) > limit:
        grouped = [_group(part, "order") if len(part) > 1 else part[0] for part in _parts(grouped, weigh, limit // 3)]
    return grouped


def _parts(entries: Sequence[Entry], weigh: Weigh, max_weight: int) -> list[list[Entry]]:
    parts: list[list[Entry]] = []
    filled = max_weight
    for entry in entries:
        weight = weigh(entry)
        if filled + weight > max_weight and not (parts and len(parts[-1]) < 2):
            parts.append([])
            filled = 0
        parts[-1].append(entry)
        filled += weight
    return parts


def _group(entries: Sequence[Entry], reason: Reason) -> Group:
    return Group(first_position(entries[0]), member_range(entries[-1])[1], tuple(entries), reason=reason)
