"""The ranks of a job side by side, as text; many ranks are told in groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from gradviz.analysis.ranks.rank_difference import RankComparison
from gradviz.analysis.ranks.rank_summary import RankSummary
from gradviz.rendering.reports.rank_tables import MEMORY, RankTable, memory_table, rank_table, titled_tables
from gradviz.rendering.reports.terminal_tables import empty_table, printed, wrapped
from gradviz.rendering.words.common_words import counted
from gradviz.safe_text import one_line

NO_DIFFERENCE = "no difference between them stands out"


def ranks_text(comparison: RankComparison, width: int, *, color: bool = False) -> str:
    """The whole text."""
    return printed(_parts(comparison, width), width, color=color)


def rank_memory_text(ranks: Sequence[RankSummary], width: int, *, color: bool = False) -> str:
    """Only the memory of all ranks."""
    return printed(
        (Text(f"all recorded ranks: {MEMORY}", style="bold"), _table(memory_table(ranks))), width, color=color
    )


def ranks_title(comparison: RankComparison) -> str:
    """``train.py: 2 ranks on 1 host, process group gloo``."""
    first = comparison.ranks[0].rank
    hosts = len({each.rank.host for each in comparison.ranks})
    recorded = f"{len(comparison.ranks):,} of " if len(comparison.ranks) < comparison.world_size else ""
    noun = "processes" if first.is_in_order else "ranks"
    group = f", process group {first.backend}" if first.backend else ""
    title = f"{one_line(comparison.program)}: {recorded}{comparison.world_size:,} {noun} on {counted(hosts, 'host')}"
    return f"{title}{group}"


def _parts(comparison: RankComparison, width: int) -> Iterator[RenderableType]:
    yield Text(ranks_title(comparison), style="bold")
    yield _table(rank_table(comparison))
    if not comparison.differences:
        yield Text(f"\n{NO_DIFFERENCE}")
    for each in comparison.differences:
        yield Text()
        yield wrapped(each.what, width, "bold yellow" if each.is_alarm else "")
        for detail in each.details:
            yield Padding(wrapped(detail, width - 2, ""), (0, 0, 0, 2))
    for title, table in titled_tables(comparison):
        yield Text(f"\n{title}", style="bold")
        yield _table(table)
    if comparison.disclosures:
        yield Text()
    for sentence in comparison.disclosures:
        yield wrapped(f"not compared: {sentence}", width, "dim")


def _table(content: RankTable) -> RenderableType:
    table = empty_table()
    for column in content.columns:
        if column.is_number:
            table.add_column(column.title, justify="right", no_wrap=True)
        else:
            table.add_column(column.title, max_width=30)
    for row in content.rows:
        table.add_row(*row)
    return table
