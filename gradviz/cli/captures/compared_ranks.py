"""The summaries of all ranks of a job, from a run or from its captures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradviz.analysis.ranks.rank_summary import RankSummary, summary_of
from gradviz.capture.capture import Capture
from gradviz.capture.rank_end import RankEnd
from gradviz.cli.captures.checked_job import capture_of_rank, other_ranks
from gradviz.errors import BadInput

if TYPE_CHECKING:
    from gradviz.cli.captures.source import Source, SourceOptions


@dataclass(frozen=True)
class RecordedRanks:
    """What was recorded of a job."""

    summaries: list[RankSummary]
    world_size: int
    load: Callable[[int], Capture]
    """Reads the capture of a rank."""
    disclosures: tuple[str, ...]
    ends: tuple[RankEnd, ...]


def recorded_ranks(source: Source, options: SourceOptions) -> RecordedRanks:
    """Read all captures, one at a time.

    Raises `BadInput` if the source is the recording of one process.
    """
    ranks = other_ranks(source, options)
    if ranks is None:
        what = "one rank of a job" if options.rank is not None or source.capture.rank is not None else "one process"
        raise BadInput(
            f"{options.name} is {what}: there is nothing to compare",
            hint="gradviz record -o run.gradviz -- torchrun --nproc-per-node 2 train.py records all ranks",
        )
    summaries = [summary_of(each, each.rank) for each in ranks.captures if each.rank is not None]
    if not summaries:
        raise BadInput(f"no rank of {options.name} was recorded")
    return RecordedRanks(summaries, ranks.world_size, capture_of_rank(source, options), ranks.disclosures, ranks.ends)


@dataclass(frozen=True)
class SeveralRanks:
    """The ranks of a job whose memory is told together."""

    summaries: list[RankSummary]
    world_size: int


def several_ranks(source: Source, options: SourceOptions) -> SeveralRanks | None:
    """All ranks of the job that the source is one of; None if there is only one."""
    ranks = other_ranks(source, options)
    if ranks is None:
        return None
    summaries = [summary_of(each, each.rank) for each in ranks.captures if each.rank is not None]
    return SeveralRanks(summaries, ranks.world_size) if len(summaries) > 1 else None
