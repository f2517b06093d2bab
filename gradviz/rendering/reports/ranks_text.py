"""The ranks of a job side by side, as text; many ranks are told in groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from gradviz.analysis.ranks.rank_difference import RankComparison
from gradviz.analysis.ranks.rank_summary import RankSummary
from gradviz.analysis.ranks.rank_words import rank_words
from gradviz.analysis.ranks.stand_words import at_words
from gradviz.graph.number_words import byte_words
from gradviz.rendering.reports.rank_memory_table import numbers_words, rank_memory_table
from gradviz.rendering.reports.terminal_tables import empty_table, printed, wrapped
from gradviz.rendering.words.common_words import counted, range_words
from gradviz.safe_text import one_line

MAX_SINGLE = 16
"""Of more ranks than this, those with the same figures share a row."""
MAX_ROWS = 24


def ranks_text(comparison: RankComparison, width: int, *, color: bool = False) -> str:
    """The whole text."""
    return printed(_parts(comparison, width), width, color=color)


def _parts(comparison: RankComparison, width: int) -> Iterator[RenderableType]:
    first = comparison.ranks[0].rank
    hosts = len({each.rank.host for each in comparison.ranks})
    recorded = f"{len(comparison.ranks):,} of " if len(comparison.ranks) < comparison.world_size else ""
    noun = "processes" if first.is_in_order else "ranks"
    group = f", process group {first.backend}" if first.backend else ""
    title = f"{one_line(comparison.program)}: {recorded}{comparison.world_size:,} {noun} on {counted(hosts, 'host')}"
    yield Text(f"{title}{group}", style="bold")
    yield _table(comparison)
    yield Text("\nmemory, and what is exchanged for parameters in a step", style="bold")
    yield rank_memory_table(comparison.ranks)
    if not comparison.differences:
        yield Text("\nno difference between them stands out")
    for each in comparison.differences:
        yield Text()
        yield wrapped(each.what, width, "bold yellow" if each.is_alarm else "")
        for detail in each.details:
            yield Padding(wrapped(detail, width - 2, ""), (0, 0, 0, 2))
    if comparison.communication:
        yield Text("\ngiven to collectives by each rank", style="bold")
        yield _communication(comparison)
    if comparison.disclosures:
        yield Text()
    for sentence in comparison.disclosures:
        yield wrapped(f"not compared: {sentence}", width, "dim")


def _table(comparison: RankComparison) -> RenderableType:
    table = empty_table()
    table.add_column(comparison.ranks[0].rank.kind, max_width=30)
    for title in ("backward calls", "recorded"):
        table.add_column(title, justify="right")
    table.add_column("ended", no_wrap=True)
    has_losses = any(each.last is not None and each.last.loss is not None for each in comparison.ranks)
    for title in ("loss",) * has_losses + ("gradient", ".grad"):
        table.add_column(title, justify="right", no_wrap=True)
    groups = _groups(comparison)
    for group in groups[:MAX_ROWS]:
        one = group[0]
        name = numbers_words(group)
        calls = [each.last for each in group if each.last is not None]
        table.add_row(
            name, f"{one.backward_calls:,}", f"{len(one.calls):,}", one.error or one.outcome,
            *[_range([call.loss for call in calls])] * has_losses,
            _range([call.norm for call in calls]), _range([call.reduced_norm for call in calls]),
        )  # fmt: skip
    if len(groups) > MAX_ROWS:
        table.add_row(f"and {sum(map(len, groups[MAX_ROWS:])):,} more")
    return table


def _communication(comparison: RankComparison) -> RenderableType:
    table = empty_table()
    for title in ("collective", "line", "ranks"):
        table.add_column(title)
    for title in ("calls", "bytes"):
        table.add_column(title, justify="right", no_wrap=True)
    numbers = {each.rank.number: each.rank for each in comparison.ranks}
    for each in comparison.communication:
        rank = numbers.get(each.ranks[0], comparison.ranks[0].rank)
        table.add_row(
            f"{each.name}{' in backward' if each.is_in_backward else ''}",
            at_words(each.at).removeprefix(" at ") or "-",
            rank_words(each.ranks, rank, comparison.world_size).removeprefix("ranks ").removeprefix("rank "),
            range_words(each.calls, lambda number: f"{number:,}"),
            range_words(each.bytes, byte_words),
        )
    return table


def _groups(comparison: RankComparison) -> list[list[RankSummary]]:
    if len(comparison.ranks) <= MAX_SINGLE:
        return [[each] for each in comparison.ranks]
    groups: dict[object, list[RankSummary]] = {}
    for each in comparison.ranks:
        groups.setdefault((each.backward_calls, len(each.calls), each.outcome, each.error), []).append(each)
    return list(groups.values())


def _range(norms: Sequence[float | None]) -> str:
    """The norms at the last recorded backward call."""
    known = [norm for norm in norms if norm is not None]
    if not known:
        return "-"
    low, high = f"{min(known):.3g}", f"{max(known):.3g}"
    return low if low == high else f"{low} … {high}"
