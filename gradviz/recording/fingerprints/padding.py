"""Finds what pads the sequences of a batch of ids: runs of one id at their ends, of different lengths."""

from __future__ import annotations

from typing import Literal

import torch

from gradviz.graph.call_log import IGNORED_CLASS, Padding

MIN_SIZE = 4
"""Rows or columns."""
_MIN_LENGTHS = 3
_MIN_PART = 0.1
"""Of all positions, those that are padding."""
_MAX_ELSEWHERE = 0.01
"""Of all other positions, those at which the same id stands."""
_MIN_UNSORTED = 2
_SIDES: tuple[tuple[Literal[0, 1], bool], ...] = ((1, True), (1, False), (0, True), (0, False))


def padding_of(ids: torch.Tensor) -> Padding | None:
    """What pads the rows or else the columns of a matrix; None if nothing does.

    >>> ids = torch.tensor([[5, 3, 4, 7, 6], [2, 9, 3, 0, 0], [8, 1, 4, 0, 0], [2, 1, 0, 0, 0], [7, 4, 8, 5, 0]])
    >>> padding_of(ids)
    Padding(value=0, count=8, of=25, axis=1, is_at_end=True, least=0)
    >>> padding_of(ids.t().flip(0))
    Padding(value=0, count=8, of=25, axis=0, is_at_end=False, least=0)
    >>> padding_of(ids.sort().values.flip(1)), padding_of(ids % 3)
    (None, None)

    Columns in which nothing counts, because a language model has no target there, are left out.

    >>> padding_of(torch.cat([ids[:, 1:], torch.full((5, 1), -100)], dim=1))
    Padding(value=0, count=8, of=20, axis=1, is_at_end=True, least=0)
    """
    counts = ids != IGNORED_CLASS
    ids = ids[counts.any(1)][:, counts.any(0)]
    if not ids.numel():
        return None
    for axis, is_at_end in _SIDES:
        lines = ids if axis else ids.t()
        found = _padding_at_end(lines if is_at_end else lines.flip(1))
        if found is not None:
            value, count, least = found
            return Padding(value, count, ids.numel(), axis, is_at_end, least)
    return None


def _padding_at_end(lines: torch.Tensor) -> tuple[int, int, int] | None:
    """The id that pads rows at their ends, how many of it do, and how many do in each row at least."""
    value = lines[:, -1].mode().values
    has_it = lines == value
    if int(has_it[:, -1].sum()) * 2 < len(lines):
        return None
    runs = has_it.flip(1).long().cumprod(1).sum(1)
    count, total = int(runs.sum()), lines.numel()
    is_elsewhere = int(has_it.sum()) - count > _MAX_ELSEWHERE * (total - count)
    if count < _MIN_PART * total or is_elsewhere or len(set(runs.tolist())) < _MIN_LENGTHS:
        return None
    return (int(value), count, int(runs.min())) if _are_unsorted(lines, runs) else None


def _are_unsorted(lines: torch.Tensor, runs: torch.Tensor) -> bool:
    """Whether what stands before the runs, up to their first id, is in no order: rows that were sorted end with runs of
    the largest id, or the smallest."""
    steps = lines.diff(dim=1)
    inside = torch.arange(1, lines.shape[1]) <= (lines.shape[1] - runs).unsqueeze(1)
    both = ((steps > 0) & inside).any(1) & ((steps < 0) & inside).any(1)
    return int(both.sum()) >= _MIN_UNSORTED
