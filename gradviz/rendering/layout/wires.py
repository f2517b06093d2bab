"""Links of a nested view as wires within single boxes.

A link between items in different boxes crosses borders. It is split there: one wire in each box that it passes, from
port to port. Links of one source that cross the same border share the port and all wires before it, because they carry
the same data.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from gradviz.view.model import Link, View


class End(NamedTuple):
    """One end of a wire in a box: a child (`item`), or the box's own border if `item` is None.

    `port` identifies the crossing by the source of the links that pass it; None for a closed child.
    """

    item: int | None
    port: int | None = None


Ends = tuple[End, End]
Step = tuple[int | None, int]
"""A box and the number of a wire in it."""


class Wiring:
    """Wires by box, and the wires that each link runs along.

    `wires[box]` maps the two ends of each wire to its number.
    """

    def __init__(self, view: View, skipped: set[int]) -> None:
        """`skipped` are sources whose links need no wire."""
        self._parents = [item.parent for item in view.items]
        self._depths = view.depths()
        self.wires: dict[int | None, dict[Ends, int]] = {}
        self.paths: list[tuple[Step, ...]] = [
            () if link.source in skipped else tuple(self._path(link)) for link in view.links
        ]

    def boxes_of(self, links: Collection[int]) -> set[int | None]:
        """The boxes through which some links run."""
        return {box for link in links for box, _ in self.paths[link]}

    def _path(self, link: Link) -> list[Step]:
        exits, source, target, entries = self._borders(link)
        if source == target:
            return []  # A link from a box to its own content needs no wire.
        port = link.source
        steps: list[Step] = []
        inner = End(link.source)
        for box in exits:
            steps.append(self._wire(box, inner, End(None, port)))
            inner = End(box, port)
        first = End(entries[0], port) if entries else End(link.target)
        steps.append(self._wire(self._parents[source], inner, first))
        for number, box in enumerate(entries):
            last = number == len(entries) - 1
            goal = End(link.target) if last else End(entries[number + 1], port)
            steps.append(self._wire(box, End(None, port), goal))
        return steps

    def _borders(self, link: Link) -> tuple[list[int], int, int, list[int]]:
        """Boxes that it leaves (innermost first), the two siblings it joins, boxes that it enters (outermost first)."""
        source, target = link.source, link.target
        exits: list[int] = []
        entries: list[int] = []
        while self._parents[source] != self._parents[target]:
            above_source, above_target = self._parents[source], self._parents[target]
            if above_source is not None and self._depths[source] >= self._depths[target]:
                exits.append(above_source)
                source = above_source
            elif above_target is not None:
                entries.append(above_target)
                target = above_target
        return exits, source, target, entries[::-1]

    def _wire(self, box: int | None, source: End, target: End) -> Step:
        wires = self.wires.setdefault(box, {})
        return box, wires.setdefault((source, target), len(wires))
