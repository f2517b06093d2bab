"""What the ranks of a job give to collectives: by line, in bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from gradviz.capture.rank_end import CodeLine, RankEnd

MAX_ROWS = 12


class Communication(Struct, frozen=True):
    """The collectives of one line."""

    name: str
    at: CodeLine | None
    is_in_backward: bool
    ranks: tuple[int, ...]
    """Who called them."""
    calls: tuple[int, int]
    """The fewest and the most of a rank."""
    bytes: tuple[int, int]
    """What a rank gave to all of them."""


def communication(ends: Sequence[RankEnd]) -> tuple[Communication, ...]:
    """The lines that give most, with all ranks that call there."""
    found: dict[tuple[str, CodeLine | None, bool], list[tuple[int, int, int]]] = defaultdict(list)
    for each in ends:
        for traffic in each.traffic:
            found[traffic.name, traffic.at, traffic.is_in_backward].append((each.rank, traffic.calls, traffic.bytes))
    made = []
    for key, given in found.items():
        ranks, calls, sizes = zip(*given, strict=True)
        made.append(Communication(*key, tuple(ranks), (min(calls), max(calls)), (min(sizes), max(sizes))))
    return tuple(sorted(made, key=lambda each: -each.bytes[1])[:MAX_ROWS])
