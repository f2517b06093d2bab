"""The memory of the ranks of a job, from their summaries."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gradviz.analysis.memory.job_memory import JobMemory, RankMemory
from gradviz.analysis.ranks.rank_summary import RankSummary


def job_memory(summaries: Sequence[RankSummary], world_size: int) -> JobMemory:
    """The memory of each rank and of all."""
    ranks = [_of_rank(each) for each in summaries]
    states = [each.optimizer_bytes for each in ranks if each.optimizer_bytes is not None]
    if len(states) == world_size and any(each.whole_optimizer_bytes is None for each in ranks):
        # Each rank has the whole state of some parameters, so that all of them together have it once.
        ranks = [replace(each, whole_optimizer_bytes=sum(states)) for each in ranks]
    return JobMemory(
        world_size,
        sum(each.parameter_bytes for each in ranks),
        sum(each.kept_bytes for each in ranks),
        sum(each.exchanged_bytes for each in ranks),
        sum(states) if states else None,
        tuple(ranks),
    )


def _of_rank(summary: RankSummary) -> RankMemory:
    here, whole = summary.parameter_bytes
    optimizer, whole_optimizer = summary.optimizer_bytes or (None, None)
    last = summary.last
    return RankMemory(
        summary.rank.number,
        here,
        whole,
        summary.kept,
        0 if last is None else last.exchanged,
        optimizer,
        whole_optimizer,
        None if last is None else last.waited,
    )
