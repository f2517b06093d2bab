"""The ranks of a job in words."""

from __future__ import annotations

from collections.abc import Sequence

from gradviz.capture.capture import Rank
from gradviz.graph.number_words import counted

MAX_GROUPS = 6
"""How many groups of ranks that say different things are told one by one."""


def rank_words(numbers: Sequence[int], rank: Rank, world_size: int | None = None) -> str:
    """``all 4 ranks``, ``rank 1``, ``ranks 0, 2-5``; `rank` is one of them."""
    world_size = rank.world_size if world_size is None else world_size
    if len(numbers) == world_size > 1:
        return f"all {world_size:,} {kind_words(rank, world_size)}"
    if len(numbers) == 1:
        return f"{rank.kind} {numbers[0]}"
    return f"{kind_words(rank, 2)} {_ranges(numbers)}"


def _ranges(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    more = f" and {counted(len(words) - MAX_GROUPS, 'more group')}" if len(words) > MAX_GROUPS else ""
    return ", ".join(words[:MAX_GROUPS]) + more


def kind_words(rank: Rank, count: int) -> str:
    """``rank``, ``ranks``, ``process`` or ``processes``."""
    return rank.kind if count == 1 else "processes" if rank.is_in_order else "ranks"
