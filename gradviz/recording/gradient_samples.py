"""Histograms of gradients: from a sample of each, and computed for many at once, however few of them are alike."""

from __future__ import annotations

import torch

from gradviz.graph.gradients import FIRST_DECADE
from gradviz.recording.gradient_statistics import decades, histograms

SAMPLE = 128
"""So many elements, evenly spaced, stand for all of a tensor."""
_ROWS = 256

Histogram = tuple[int, tuple[int, ...]]
"""Exponent of the first decade that has a value, and the counts from there to the last that has one."""


class Sampler:
    """Takes samples of matrices whose rows are gradients, on one device."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype = dtype
        self._device = device
        self._rows: torch.Tensor | None = None
        self._numbers: list[int] = []
        self._unread: list[tuple[list[int], torch.Tensor]] = []
        self._found: dict[int, Histogram] = {}

    def add(self, numbers: list[int], matrix: torch.Tensor) -> None:
        """Sample each row; the rows belong to these numbers."""
        if self._rows is None or len(self._numbers) + len(numbers) > _ROWS:
            self._flush()
            # What a short row leaves free is zero, which no histogram counts.
            self._rows = torch.zeros((_ROWS, SAMPLE), dtype=self.dtype, device=self._device)
        sample = matrix[:, :: -(-matrix.shape[1] // SAMPLE)]
        start = len(self._numbers)
        self._rows[start : start + len(numbers), : sample.shape[1]] = sample
        self._numbers.extend(numbers)

    def finish(self) -> dict[int, Histogram]:
        """The histogram of each number."""
        self._flush()
        for numbers, codes in self._unread:
            self._count(numbers, codes.cpu())
        self._unread.clear()
        return self._found

    def _flush(self) -> None:
        if not self._numbers or self._rows is None:
            return
        numbers, self._numbers = self._numbers, []
        codes = decades(self._rows[: len(numbers)])
        if codes.is_cpu:
            self._count(numbers, codes)
        else:
            self._unread.append((numbers, codes))

    def _count(self, numbers: list[int], codes: torch.Tensor) -> None:
        for number, counts in zip(numbers, histograms(codes), strict=True):
            filled = [place for place, count in enumerate(counts) if count]
            span = slice(filled[0], filled[-1] + 1) if filled else slice(0)
            self._found[number] = (FIRST_DECADE + filled[0] if filled else 0), tuple(counts[span])
