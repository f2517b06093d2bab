"""The figures of the ranks of a job as rows of words, for text and for the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gradviz.analysis.ranks.rank_difference import RankComparison
from gradviz.analysis.ranks.rank_summary import RankSummary
from gradviz.analysis.ranks.rank_words import rank_words
from gradviz.analysis.ranks.stand_words import at_words
from gradviz.graph.number_words import byte_words
from gradviz.graph.query.own_line import line_words_of
from gradviz.rendering.words.common_words import range_words

MAX_SINGLE = 16
"""Of more ranks than this, those with the same figures share a row."""
MAX_ROWS = 24
MEMORY = "memory, and what is exchanged for parameters in a step"


class Column(NamedTuple):
    """The title of a column."""

    title: str
    is_number: bool = False


class RankTable(NamedTuple):
    """Rows of words."""

    columns: tuple[Column, ...]
    rows: Sequence[tuple[str, ...]]


def rank_table(comparison: RankComparison) -> RankTable:
    """A row for each rank: how often it called backward, how it ended, its loss and its gradients."""
    has_losses = any(each.last is not None and each.last.loss is not None for each in comparison.ranks)
    columns = (
        Column(comparison.ranks[0].rank.kind), Column("backward calls", True), Column("recorded", True),
        Column("ended"), *(Column("loss", True),) * has_losses, Column("gradient", True), Column(".grad", True),
    )  # fmt: skip
    rows: list[tuple[str, ...]] = []
    groups = _groups(comparison)
    for group in groups[:MAX_ROWS]:
        one = group[0]
        calls = [each.last for each in group if each.last is not None]
        rows.append(
            (
                numbers_words(group), f"{one.backward_calls:,}", f"{len(one.calls):,}", one.error or one.outcome,
                *(_range([call.loss for call in calls]),) * has_losses,
                _range([call.norm for call in calls]), _range([call.reduced_norm for call in calls]),
            )
        )  # fmt: skip
    if len(groups) > MAX_ROWS:
        rows.append((f"and {sum(map(len, groups[MAX_ROWS:])):,} more", *[""] * (len(columns) - 1)))
    return RankTable(columns, rows)


def titled_tables(comparison: RankComparison) -> Iterator[tuple[str, RankTable]]:
    """The tables below the first one, each with its title; what ranks sent is left out if they sent nothing."""
    yield MEMORY, memory_table(comparison.ranks)
    for title, table in (
        ("sent to single ranks", peer_table(comparison)),
        ("given to collectives by each rank", communication_table(comparison)),
    ):
        if table.rows:
            yield title, table


def memory_table(ranks: Sequence[RankSummary]) -> RankTable:
    """Bytes of parameters on each rank and in the whole, of what graphs keep, and of what is given to others.

    Ranks with the same figures share a row; of more rows than fit, the largest are shown.
    """
    groups: dict[tuple[int, ...], list[RankSummary]] = {}
    for each in ranks:
        groups.setdefault(_bytes(each), []).append(each)
    shown = sorted(groups.items(), key=lambda group: -(group[0][0] + group[0][2]))[:MAX_SINGLE]
    shown.sort(key=lambda group: group[1][0].rank.number)
    rows: list[tuple[str, ...]] = [(numbers_words(group), *map(byte_words, figures)) for figures, group in shown]
    if len(groups) > len(shown):
        rows.append((f"and {len(groups) - len(shown):,} more groups", "", "", "", ""))
    if len(ranks) > 1:
        here, _, kept, exchanged = (sum(column) for column in zip(*map(_bytes, ranks), strict=True))
        rows.append(("together", byte_words(here), "", byte_words(kept), byte_words(exchanged)))
    titles = ("parameters", "of", "graph memory", "exchanged")
    return RankTable((Column(ranks[0].rank.kind), *(Column(title, True) for title in titles)), rows)


def communication_table(comparison: RankComparison) -> RankTable:
    """A row for each line that calls collectives."""
    numbers = {each.rank.number: each.rank for each in comparison.ranks}
    rows: list[tuple[str, ...]] = []
    for each in comparison.communication:
        rank = numbers.get(each.ranks[0], comparison.ranks[0].rank)
        rows.append(
            (
                f"{each.name}{' in backward' if each.is_in_backward else ''}",
                at_words(each.at).removeprefix(" at ") or "-",
                rank_words(each.ranks, rank, comparison.world_size).removeprefix("ranks ").removeprefix("rank "),
                range_words(each.calls, lambda number: f"{number:,}"),
                range_words(each.bytes, byte_words),
            )
        )
    columns = (Column("collective"), Column("line"), Column("ranks"), Column("calls", True), Column("bytes", True))
    return RankTable(columns, rows)


def peer_table(comparison: RankComparison) -> RankTable:
    """A row for each line that sends to single ranks, with the line that receives it there."""
    receivers = {
        (each.rank.number, message.peer, message.shape, message.dtype): message
        for each in comparison.ranks
        for message in each.traffic
        if message.direction == "received"
    }
    rows: list[tuple[str, ...]] = []
    for each in comparison.ranks:
        for sent in each.traffic:
            if sent.direction != "sent" or len(rows) >= MAX_ROWS:
                continue
            there = receivers.get((sent.peer, each.rank.number, sent.shape, sent.dtype))
            line = "-" if there is None else _line(there.file, there.line)
            rows.append(
                (
                    f"{each.rank.number} → {sent.peer}", _line(sent.file, sent.line), line,
                    f"{list(sent.shape)} {sent.dtype}", f"{sent.calls:,}", byte_words(sent.bytes),
                )
            )  # fmt: skip
    titles = ("ranks", "sent at", "received at", "tensor")
    return RankTable((*map(Column, titles), Column("times", True), Column("bytes", True)), rows)


def numbers_words(group: Sequence[RankSummary]) -> str:
    """``3``, ``0-2, 5``."""
    return rank_words([each.rank.number for each in group], group[0].rank, world_size=0).partition(" ")[2]


def _line(file: str, line: int) -> str:
    return line_words_of(file, line) if line else "-"


def _bytes(rank: RankSummary) -> tuple[int, int, int, int]:
    here, whole = rank.parameter_bytes
    return here, whole, rank.kept, 0 if rank.last is None else rank.last.exchanged


def _groups(comparison: RankComparison) -> list[list[RankSummary]]:
    if len(comparison.ranks) <= MAX_SINGLE:
        return [[each] for each in comparison.ranks]
    groups: dict[object, list[RankSummary]] = {}
    for each in comparison.ranks:
        groups.setdefault((each.backward_calls, len(each.calls), each.outcome, each.error), []).append(each)
    return list(groups.values())


def _range(figures: Sequence[float | None]) -> str:
    """The figures at the last recorded backward call."""
    known = [figure for figure in figures if figure is not None]
    if not known:
        return "-"
    low, high = f"{min(known):.3g}", f"{max(known):.3g}"
    return low if low == high else f"{low} … {high}"
