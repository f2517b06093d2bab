"""How the members of every container are grouped: repeats into one, and what is too long to read into parts.

Alike containers are arranged alike, so each signature is worked out once, however many blocks a model has.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property

from gradviz.graph.chunks import chunk
from gradviz.graph.groups import Entry
from gradviz.graph.loops import Row, fold_repeats, signatures_of_entries
from gradviz.graph.model import Graph
from gradviz.graph.nesting import Nesting, Signatures
from gradviz.graph.source_lines import readers_lines
from gradviz.graph.weights import Weights


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
        self._lines = readers_lines(graph)

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
