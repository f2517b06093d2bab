"""Finds what is repeated one after the other: ``a b c a b c a b c`` is ``a b c`` three times.

Works on plain numbers: a signature for each unit and the positions from which it takes its data. Equal signatures
propose a repetition; the wiring decides, because two towers of equal layers side by side are not a chain of layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

Wiring = tuple[int, ...]
"""Where a unit takes its data from: positions in its container, below zero for sources outside."""

PERIODS_TRIED = 8
"""How many next positions of an equal unit are tried as the period. Shorter loops inside the body are folded earlier,
so that few equal units remain inside one."""


@dataclass(frozen=True, slots=True)
class Run:
    """`count` equal sequences of `period` units each, from `start`."""

    start: int
    period: int
    count: int
    is_chain: bool
    """Each takes data from the one before; otherwise they are side by side."""

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
    """Runs that do not overlap, from left to right, at each position the shortest period first.

    `is_worth_folding` must not reject a run because it is longer or a chain.
    `lines` are source lines: a repetition begins where a loop in the source begins.
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
        self.next_equal = _next_equal_positions(signatures)
        self.equal_until: dict[int, int] = {}
        """For a period, the end of the stretch last compared, so that no stretch is compared twice."""
        self.exhausted_until: dict[int, int] = {}
        """For a period, the position before which nothing worth folding remains."""

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
        signatures, following, total = self.signatures, position, len(self.signatures)
        for _ in range(PERIODS_TRIED):
            following = self.next_equal[following]
            period = following - position
            if following < 0 or period >= self.periods.stop or following + period > total:
                return
            is_alike_at_end = signatures[following - 1] == signatures[following + period - 1]
            if is_alike_at_end and period >= self.periods.start:
                yield period

    def _equal_until(self, position: int, period: int) -> int:
        """The first position from `position` whose unit differs from the unit one period later."""
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
        """The start, among those that lose no repetition, with the fewest values carried between repetitions."""
        slack = (stop - position) % period
        return min(range(position, position + slack + 1), key=lambda start: self._cost_of_start(start, period))

    def _cost_of_start(self, start: int, period: int) -> tuple[int, bool, int]:
        border = start + period
        second = range(border, min(border + period, len(self.wiring)))
        carried = [source for unit in second for source in self.wiring[unit] if start <= source < border]
        loops_back = bool(self.lines) and self.lines[border] < self.lines[border - 1]
        return len(set(carried)), not loops_back, len(carried)

    def _steady_runs(self, start: int, period: int, stop: int) -> Iterator[Run]:
        """Parts of the sequence in which every repetition has the same connections as the one before."""
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
            is_chain = any(distance > position for position, wires in enumerate(second) for distance in wires)
            yield Run(begin, period, stop - first, is_chain)

    def _wires_of(self, start: int, period: int) -> list[Sequence[int]]:
        """How far back the sources of each unit are; 0 for those further back than the previous repetition."""
        oldest = start - period
        wiring = self.wiring
        return [
            [unit - source if source >= oldest else 0 for source in wiring[unit]]
            for unit in range(start, start + period)
        ]


def _inner(wires: list[Sequence[int]]) -> list[list[int]]:
    """Keep only sources in the same repetition: the first repetition has other sources than later ones."""
    return [[distance for distance in unit if 0 < distance <= position] for position, unit in enumerate(wires)]


def _next_equal_positions(signatures: Sequence[int]) -> list[int]:
    following = [-1] * len(signatures)
    last_seen: dict[int, int] = {}
    for position in range(len(signatures) - 1, -1, -1):
        following[position] = last_seen.get(signatures[position], -1)
        last_seen[signatures[position]] = position
    return following
