"""Folds a row of members by its repeats: first the shortest, then repeats of those, as loops lie within loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradviz.graph.groups import Entry, Group, first_place, places
from gradviz.graph.nesting import Names, Wiring
from gradviz.graph.repeats import Run, find_runs

LONGEST_PERIODS = (1, 6, 40, 400)
"""Tried one after the other: an inner loop must be folded before the outer one that it lies in is looked for."""


@dataclass(frozen=True, slots=True)
class Row:
    """Members of one container, a list for each thing known about them."""

    entries: list[Entry]
    signatures: list[int]
    wiring: list[Wiring]
    box_sizes: list[int]
    """Operations inside a member; 0 for an operation itself."""
    lines: list[int]

    def find_runs(self, periods: range) -> list[Run]:
        """The runs of this row that are worth folding."""
        return find_runs(self.signatures, self.wiring, self.is_worth_folding, self.lines, periods=periods)

    def is_worth_folding(self, run: Run) -> bool:
        """Whether one box says more than the members do: a few equal operations in a row are read at a glance."""
        sizes = self.box_sizes[run.start : run.start + run.period]
        if not run.is_chain:
            # Side by side, as query, key and value are: each has its own place in the picture.
            return run.count >= 5
        if all(sizes):
            return run.count >= 3 or sum(sizes) >= 4
        if run.period == 1:
            return run.count >= 4
        return run.count >= 3 or sum(max(size, 1) for size in sizes) >= 12


def fold_repeats(row: Row, *, sizes_differ: bool = False) -> Row:
    """`row` with what is repeated in groups, and in groups of groups.

    `sizes_differ` says that its signatures leave out sizes.
    """
    names = Names()
    row = replace(row, signatures=[names.number(("member", signature)) for signature in row.signatures])
    shortest = 1
    for longest in LONGEST_PERIODS:
        while runs := row.find_runs(range(shortest, longest + 1)):
            row = _fold(row, runs, names, sizes_differ=sizes_differ)
            shortest = 1  # what was folded may stand in a row itself
        shortest = longest + 1
    return row


def signatures_of_entries(entries: Sequence[Entry], signatures: Sequence[int]) -> list[int]:
    """A signature for each entry of a row that was folded, made of those of its members."""
    names = Names()

    def number(entry: Entry) -> int:
        inside: list[Entry] = [entry]
        key: list[int] = []
        while inside:  # groups within groups, outermost first
            each = inside.pop()
            if isinstance(each, Group):
                key += (-1, each.count, len(each.entries))
                inside.extend(reversed(each.entries))
            else:
                key.append(signatures[each])
        return names.number(tuple(key))

    return [number(entry) for entry in entries]


def _fold(row: Row, runs: Sequence[Run], names: Names, *, sizes_differ: bool) -> Row:
    pieces = _pieces(len(row.entries), runs)
    new_place = [place for place, (start, stop, _) in enumerate(pieces) for _ in range(start, stop)]
    folded = Row([], [], [], [], [row.lines[start] for start, _, _ in pieces])
    for place, (start, stop, run) in enumerate(pieces):
        folded.entries.append(row.entries[start] if run is None else _group(row, run, sizes_differ))
        folded.signatures.append(row.signatures[start] if run is None else names.number(_key(row, run)))
        sizes = row.box_sizes[start:stop]
        folded.box_sizes.append(sizes[0] if run is None else sum(max(size, 1) for size in sizes))
        folded.wiring.append(_rewire(row.wiring[start:stop], new_place, place))
    return folded


def _pieces(total: int, runs: Sequence[Run]) -> list[tuple[int, int, Run | None]]:
    """Start and stop of every run and of every single member between them."""
    pieces: list[tuple[int, int, Run | None]] = []
    position = 0
    for run in runs:
        pieces.extend((place, place + 1, None) for place in range(position, run.start))
        pieces.append((run.start, run.stop, run))
        position = run.stop
    pieces.extend((place, place + 1, None) for place in range(position, total))
    return pieces


def _group(row: Row, run: Run, sizes_differ: bool) -> Group:
    first = row.entries[run.start : run.start + run.period]
    start, stop = first_place(first[0]), places(row.entries[run.stop - 1])[1]
    return Group(start, stop, tuple(first), run.count, sizes_differ=sizes_differ)


def _key(row: Row, run: Run) -> tuple[object, ...]:
    return ("run", run.count, *row.signatures[run.start : run.start + run.period])


def _rewire(wiring: Sequence[Wiring], new_place: Sequence[int], own: int) -> Wiring:
    if len(wiring) == 1:
        return tuple([source if source < 0 else new_place[source] for source in wiring[0]])
    sources = (source if source < 0 else new_place[source] for wires in wiring for source in wires)
    return tuple(source for source in dict.fromkeys(sources) if source != own)
