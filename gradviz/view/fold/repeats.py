"""Folds a row of members by its repeats: first the shortest, then repeats of those, as loops lie within loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from gradviz.view.fold.groups import Entry, Group, first_place, places
from gradviz.view.fold.nesting import Names, Wiring

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


# Finds what is repeated one after the other: ``a b c a b c a b c`` is ``a b c`` three times.
#
# Works on plain numbers: a signature for each unit and the places it takes its data from. Equal signatures propose a
# repetition; the wiring decides, because two towers of equal layers side by side are not a chain of layers.

PERIODS_TRIED = 8
"""How many next places of an equal unit are tried as the period. Shorter loops inside the body are folded before, so
that few equal units are left inside one."""


@dataclass(frozen=True, slots=True)
class Run:
    """`count` alike stretches of `period` units each, from `start`."""

    start: int
    period: int
    count: int
    is_chain: bool
    """Each takes data from the one before; otherwise they stand side by side."""

    @property
    def stop(self) -> int:
        return self.start + self.period * self.count


def find_runs(
    signatures: Sequence[int],
    wiring: Sequence[Sequence[int]],
    is_worth_folding: Callable[[Run], bool],
    lines: Sequence[int] = (),
    *,
    periods: range = range(1, 401),
) -> list[Run]:
    """Runs that do not overlap, from left to right, at each place the shortest period first.

    `is_worth_folding` must not like a run less for being longer, or for being a chain.
    `lines` are source lines, used to begin a repetition where a loop in the source begins.
    """
    search = _Search(signatures, wiring, lines, periods)
    found = []
    position = 0
    while position < len(signatures):
        run = search.run_from(position, is_worth_folding)
        if run is not None:
            found.append(run)
        position = run.stop if run is not None else position + 1
    return found


class _Search:
    def __init__(
        self, signatures: Sequence[int], wiring: Sequence[Sequence[int]], lines: Sequence[int], periods: range
    ) -> None:
        self.signatures, self.wiring, self.lines, self.periods = signatures, wiring, lines, periods
        self.next_equal = _next_places_of_equals(signatures)
        self.equal_until: dict[int, int] = {}
        """For a period, the end of the stretch last compared: so no stretch is compared twice."""
        self.exhausted_until: dict[int, int] = {}
        """For a period, how far nothing worth folding is left."""

    def run_from(self, position: int, is_worth_folding: Callable[[Run], bool]) -> Run | None:
        """The first run worth folding in the stretches that begin at `position`."""
        for period in self._periods(position):
            if self.exhausted_until.get(period, 0) > position:
                continue
            stop = self._equal_until(position, period) + period
            count = (stop - position) // period
            if count < 2 or not is_worth_folding(Run(position, period, count, is_chain=True)):
                continue
            for run in self._steady_runs(self._best_start(position, period, stop), period, stop):
                if is_worth_folding(run):
                    return run
            self.exhausted_until[period] = stop - period
        return None

    def _periods(self, position: int) -> Iterator[int]:
        signatures, place, total = self.signatures, position, len(self.signatures)
        for _ in range(PERIODS_TRIED):
            place = self.next_equal[place]
            period = place - position
            if place < 0 or period >= self.periods.stop or place + period > total:
                return
            is_alike_at_end = signatures[place - 1] == signatures[place + period - 1]
            if is_alike_at_end and period >= self.periods.start:
                yield period

    def _equal_until(self, position: int, period: int) -> int:
        """The first place from `position` that differs from the one a period later."""
        until = self.equal_until.get(period, -1)
        if until <= position:
            signatures = self.signatures
            until = position
            last = len(signatures) - period
            while until < last and signatures[until] == signatures[until + period]:
                until += 1
            self.equal_until[period] = until
        return until

    def _best_start(self, position: int, period: int, stop: int) -> int:
        """Of the starts that lose no repetition, the one over which the least is carried from one to the next."""
        slack = (stop - position) % period
        return min(range(position, position + slack + 1), key=lambda start: self._cost_of_start(start, period))

    def _cost_of_start(self, start: int, period: int) -> tuple[int, bool, int]:
        border = start + period
        second = range(border, min(border + period, len(self.wiring)))
        carried = [source for unit in second for source in self.wiring[unit] if start <= source < border]
        loops_back = bool(self.lines) and self.lines[border] < self.lines[border - 1]
        return len(set(carried)), not loops_back, len(carried)

    def _steady_runs(self, start: int, period: int, stop: int) -> Iterator[Run]:
        """Parts of a stretch in which each repetition is wired like the one before."""
        count = (stop - start) // period
        first, steady = 0, self._wires_of(start, period)
        carried: list[Sequence[int]] = []
        for repetition in range(1, count):
            wires = self._wires_of(start + repetition * period, period)
            alike = wires == carried if repetition > first + 1 else _inner(wires) == _inner(steady)
            if not alike:
                yield from self._run(start, period, first, repetition)
                first, steady = repetition, wires
            carried = wires
        yield from self._run(start, period, first, count)

    def _run(self, start: int, period: int, first: int, stop: int) -> Iterator[Run]:
        if stop - first >= 2:
            begin = start + first * period
            second = self._wires_of(begin + period, period)
            is_chain = any(distance > place for place, wires in enumerate(second) for distance in wires)
            yield Run(begin, period, stop - first, is_chain)

    def _wires_of(self, start: int, period: int) -> list[Sequence[int]]:
        """For each unit of one repetition how far back its sources lie, 0 for beyond the repetition before."""
        oldest = start - period
        wiring = self.wiring
        return [
            [unit - source if source >= oldest else 0 for source in wiring[unit]]
            for unit in range(start, start + period)
        ]


def _inner(wires: list[Sequence[int]]) -> list[list[int]]:
    """Only what lies in the same repetition: a first one takes from elsewhere what later ones take from the last."""
    return [[distance for distance in unit if 0 < distance <= place] for place, unit in enumerate(wires)]


def _next_places_of_equals(signatures: Sequence[int]) -> list[int]:
    following = [-1] * len(signatures)
    last_seen: dict[int, int] = {}
    for place in range(len(signatures) - 1, -1, -1):
        following[place] = last_seen.get(signatures[place], -1)
        last_seen[signatures[place]] = place
    return following
