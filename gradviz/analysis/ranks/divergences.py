"""Where the ranks of a job began to do different things: the first collective that is not the same on all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradviz.analysis.ranks.stand_words import is_of_connection
from gradviz.capture.rank_end import CodeLine, Collective, RankEnd


@dataclass(frozen=True)
class Divergence:
    """The first collective in which ranks do not take part alike."""

    number: int
    """Its sequence number; 0 if unknown."""
    calls: dict[int, Collective | None]
    """What each rank called; None for a rank that called none there."""

    @property
    def groups(self) -> list[tuple[Collective, list[int]]]:
        """The collectives that were called there, with the ranks that did."""
        found: dict[tuple[str, str, int], tuple[Collective, list[int]]] = {}
        for rank, call in self.calls.items():
            if call is not None:
                line = call.at or CodeLine("", 0)
                found.setdefault((call.name, line.file, line.line), (call, []))[1].append(rank)
        return sorted(found.values(), key=lambda group: (-len(group[1]), group[1]))

    @property
    def without(self) -> list[int]:
        """The ranks that called none."""
        return [rank for rank, call in self.calls.items() if call is None]


def of_stacks(ends: Sequence[RankEnd]) -> Divergence | None:
    """Without the flight recorder: where ranks stand now."""
    calls: dict[int, Collective | None] = {}
    for each in ends:
        stand = each.stand
        line = stand.lines[0] if stand is not None and stand.lines else None
        if stand is None or not (stand.collective or stand.is_in_backward):
            calls[each.rank] = None
        else:
            name = stand.collective or "all_reduce"
            calls[each.rank] = Collective(name, at=line, is_in_backward=stand.is_in_backward)
    found = Divergence(0, calls)
    return found if any(calls.values()) and (len(found.groups) > 1 or found.without) else None


def divergences(ends: Sequence[RankEnd]) -> Iterator[Divergence]:
    """In each process group that some rank waits for, the first collective that differs."""
    held_up = [call for each in ends for call in each.collectives if not call.is_over]
    held_up += [each.collectives[-1] for each in ends if each.collectives and is_of_connection(each.error)]
    groups = {call.group for call in held_up if "p2p" not in call.group}
    for group in sorted(groups):
        tables = {each.rank: {call.number: call for call in each.collectives if call.group == group} for each in ends}
        if group not in ("0", ""):  # only the ranks of another group are known to belong to it
            tables = {rank: table for rank, table in tables.items() if table}
        found = _first_difference(tables)
        if found is not None:
            yield found


def _first_difference(tables: dict[int, dict[int, Collective]]) -> Divergence | None:
    if len(tables) < 2:
        return None
    known = [table for table in tables.values() if table]
    start = max(min(table) for table in known)  # older ones are no longer recorded
    numbers = [number for number in sorted(set().union(*known)) if number >= start]
    agreed = start - 1
    for number in numbers:
        calls = {rank: table.get(number) for rank, table in tables.items()}
        if len({_what(call) for call in calls.values()}) > 1:
            # Calls of one kind at different lines fit by chance, if the lines never agree again.
            return Divergence(agreed + 1, {rank: table.get(agreed + 1) for rank, table in tables.items()})
        if len({_line(call) for call in calls.values()}) == 1:
            agreed = number
    return None


def _what(call: Collective | None) -> object:
    if call is None:
        return None
    # Of a scatter or a gather only one rank gives or takes everything; in a broadcast, the others give nothing.
    sizes = call.shapes if call.name in ("all_reduce", "allreduce", "reduce", "broadcast", "all_gather") else ()
    return call.name, sizes, call.dtypes if sizes else ()


def _line(call: Collective | None) -> object:
    return None if call is None or call.at is None else (call.at.file, call.at.line)
