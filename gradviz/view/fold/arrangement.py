"""How the members of every container are grouped: repeats into one, and what is too long to read into parts.

Alike containers are arranged alike, so each signature is worked out once, however many blocks a model has.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

from gradviz.graph.model import Graph
from gradviz.graph.query.own_line import own_lines
from gradviz.view.fold.groups import Entry, Group, Reason, first_place, places
from gradviz.view.fold.nesting import Nesting, Signatures
from gradviz.view.fold.repeats import Row, fold_repeats, signatures_of_entries
from gradviz.view.fold.weights import Weights


@dataclass(frozen=True, slots=True)
class Limits:
    """How many things a container may show before more is grouped."""

    readable: int
    """From here on repetitions are also those that differ in sizes only."""
    largest: int
    """From here on neighbours are grouped that have nothing in common."""


class Arrangements:
    """The entries of each container, worked out when first asked for.

    With `limits` None nothing is grouped at all. `sign` signs everything, with or without sizes.
    """

    def __init__(
        self,
        graph: Graph,
        nesting: Nesting,
        weights: Weights,
        sign: Callable[[bool], Signatures],
        limits: Limits | None,
    ) -> None:
        self.graph, self.nesting, self.weights, self.limits = graph, nesting, weights, limits
        self._sign = sign
        self.signatures = sign(True)
        self._done: dict[int, tuple[Entry, ...]] = {}
        self._lines = own_lines(graph)

    def entries_of(self, container: int) -> tuple[Entry, ...]:
        """How the members of `container` are grouped; its alikes share the answer."""
        signature = -1 if container == self.nesting.outermost else self.signatures.scopes[container]
        if signature not in self._done:
            self._done[signature] = self._arrange(container)
        return self._done[signature]

    @cached_property
    def _sizeless(self) -> Signatures:
        """Signatures without sizes; most graphs never need them."""
        return self._sign(False)

    def _arrange(self, container: int) -> tuple[Entry, ...]:
        if self.limits is None:
            return tuple(range(len(self.nesting.units[container])))

        def weigh(entry: Entry) -> int:
            return self.weights.of_folded(container, entry)

        row = fold_repeats(self._row(container))
        if sum(map(weigh, row.entries)) > self.limits.readable:
            sizeless = signatures_of_entries(row.entries, self._sizeless.members[container])
            row = fold_repeats(replace(row, signatures=sizeless), sizes_differ=True)
        return chunk(
            row.entries,
            weigh,
            self.limits.largest,
            [
                ("line", lambda place: self._origin(container, place, by_line=True)),
                ("function", lambda place: self._origin(container, place, by_line=False)),
            ],
        )

    def _row(self, container: int) -> Row:
        members = self.nesting.units[container]
        spans = [self.nesting.span(unit) for unit in members]
        return Row(
            list(range(len(members))),
            self.signatures.members[container],
            self.signatures.wiring[container],
            [stop - start if unit < 0 else 0 for unit, (start, stop) in zip(members, spans, strict=True)],
            [self._line(container, place) for place in range(len(members))],
        )

    def _line(self, container: int, place: int) -> int:
        site = self._site(container, place)
        return 0 if site is None else self.graph.call_sites[site].line

    def _origin(self, container: int, place: int, *, by_line: bool) -> Hashable:
        site = self._site(container, place)
        if site is None:
            return None
        found = self.graph.call_sites[site]
        return (found.file, found.line) if by_line else (found.file, found.function)

    def _site(self, container: int, place: int) -> int | None:
        first = self.nesting.sequence[self.nesting.span(self.nesting.units[container][place])[0]]
        site = self.graph.nodes[first].call_site
        return None if site is None else self._lines[site]


# Cuts a container with more members than anyone reads into boxes: by source line, by function, else by order.
#
# Only neighbours in creation order go into one box, so that no box can come to depend on itself.

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
