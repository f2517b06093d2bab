"""Which rank comes last to collectives, for how long only it was waited for, and in which line it was meanwhile.

Whoever waits shows nothing: all ranks take as long as the slowest. What tells is the moment at which each rank calls
the same collective. Clocks of several hosts do not agree so well, so their ranks are not compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from msgspec import Struct

from gradviz.capture.rank_end import BusyLine, Collective, RankEnd

MIN_SHARE = 0.2
"""Of the time in which collectives were called."""
MIN_SECONDS = 0.1
MIN_OFTEN = 0.6
"""Of the time that is waited for anybody."""
MAX_ONCE = 0.75
"""Of the time that is waited for it, at a single moment."""


class Straggler(Struct, frozen=True):
    """A rank for which the others wait."""

    rank: int
    seconds: float
    """How long all others waited for it."""
    of: float
    """Seconds between the first and the last of the collectives that were compared."""
    collectives: int
    """How many were compared."""
    times: int
    """How often it came last."""
    line: BusyLine | None
    """Where it spends more time than the others do."""
    usual: float
    """Seconds that the others spend there, as a median."""


def straggler(ends: Sequence[RankEnd]) -> Straggler | None:
    """The rank that others wait for most of all; None if that is nobody in particular."""
    waits: dict[int, list[tuple[float, float]]] = defaultdict(list)
    times: dict[int, int] = defaultdict(int)
    compared, begin, end = 0, float("inf"), 0.0
    for arrivals in _arrivals(ends):
        last, before = _two_latest(arrivals)
        compared += 1
        begin, end = min(begin, min(arrivals.values())), max(end, arrivals[last])
        waits[last].append((before, arrivals[last]))
        times[last] += 1
    if compared < 2 or end <= begin:
        return None
    seconds = {rank: sum(last - first for first, last in _merged(spans)) for rank, spans in waits.items()}
    slowest = max(seconds, key=seconds.__getitem__)
    time = seconds[slowest]
    if time < max(MIN_SECONDS, MIN_SHARE * (end - begin)) or time < MIN_OFTEN * sum(seconds.values()):
        return None
    if max(last - first for first, last in _merged(waits[slowest])) > MAX_ONCE * time:
        return None  # it began later, or loaded something first
    line, usual = _excess(ends, slowest)
    return Straggler(slowest, time, end - begin, compared, times[slowest], line, usual)


def _arrivals(ends: Sequence[RankEnd]) -> Iterator[dict[int, float]]:
    """For each collective that all ranks of its group have called: when each did."""
    found: dict[tuple[str, int], dict[int, Collective]] = defaultdict(dict)
    members: dict[str, set[int]] = defaultdict(set)
    for each in ends:
        for call in each.collectives:
            if call.called and call.number and "p2p" not in call.group:
                found[call.group, call.number][each.rank] = call
                members[call.group].add(each.rank)
    for (group, _), calls in found.items():
        if len(calls) == len(members[group]) > 1 and len({call.name for call in calls.values()}) == 1:
            yield {rank: call.called for rank, call in calls.items()}


def _two_latest(arrivals: dict[int, float]) -> tuple[int, float]:
    """The rank that came last, and when all others were there."""
    last = max(arrivals, key=arrivals.__getitem__)
    return last, max(at for rank, at in arrivals.items() if rank != last)


def _merged(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The time that the spans cover: those that overlap are one."""
    found: list[tuple[float, float]] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return found


def _excess(ends: Sequence[RankEnd], slow: int) -> tuple[BusyLine | None, float]:
    """The line in which this rank spends most time beyond the median of the others."""
    own = next(each for each in ends if each.rank == slow)
    elsewhere: dict[tuple[str, int], list[float]] = defaultdict(list)
    for each in ends:
        if each.rank != slow:
            for line in each.busy:
                elsewhere[line.at.file, line.at.line].append(line.seconds)
    found: tuple[BusyLine | None, float, float] = None, 0.0, 0.0
    for line in own.busy:
        known = elsewhere.get((line.at.file, line.at.line), [])
        usual = median([*known, *[0.0] * (len(ends) - 1 - len(known))]) if len(ends) > 1 else 0.0
        if line.seconds - usual > found[1]:
            found = line, line.seconds - usual, usual
    return found[0], found[2]
