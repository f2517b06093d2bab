"""The memory of the ranks of a job, and of all together, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from gradviz.analysis.ranks.rank_summary import RankSummary
from gradviz.analysis.ranks.rank_words import rank_words
from gradviz.graph.number_words import byte_words
from gradviz.rendering.reports.terminal_tables import empty_table

MAX_ROWS = 16
"""Ranks with the same figures share one; of more rows, the largest are shown."""


def rank_memory_table(ranks: Sequence[RankSummary]) -> Table:
    """Bytes of parameters on each rank and in the whole, of what graphs keep, and of what is given to others."""
    table = empty_table()
    table.add_column(ranks[0].rank.kind, max_width=30)
    for title in ("parameters", "of", "graph memory", "exchanged"):
        table.add_column(title, justify="right", no_wrap=True)
    groups: dict[tuple[int, ...], list[RankSummary]] = {}
    for each in ranks:
        groups.setdefault(_figures(each), []).append(each)
    shown = sorted(groups.items(), key=lambda group: -(group[0][0] + group[0][2]))[:MAX_ROWS]
    for figures, group in sorted(shown, key=lambda group: group[1][0].rank.number):
        table.add_row(numbers_words(group), *map(byte_words, figures))
    if len(groups) > len(shown):
        table.add_row(f"and {len(groups) - len(shown):,} more groups")
    if len(ranks) > 1:
        here, _, kept, exchanged = (sum(column) for column in zip(*map(_figures, ranks), strict=True))
        table.add_row("together", byte_words(here), "", byte_words(kept), byte_words(exchanged))
    return table


def numbers_words(group: Sequence[RankSummary]) -> str:
    """``3``, ``0-2, 5``."""
    return rank_words([each.rank.number for each in group], group[0].rank, world_size=0).partition(" ")[2]


def _figures(rank: RankSummary) -> tuple[int, int, int, int]:
    here, whole = rank.parameter_bytes
    return here, whole, rank.kept, 0 if rank.last is None else rank.last.exchanged
