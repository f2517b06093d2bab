"""Histograms of gradients: from a sample of each, and computed for many gradients of any shape at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from gradviz.recording.backward.gradients.statistics import Scratch, decades, histograms

SAMPLE = 128
"""This many elements, evenly spaced, represent a tensor."""
_ROWS = 128
"""As many as torch handles on one thread: it wakes others from 32,768 elements on."""


Histogram = tuple[int, tuple[int, ...]]
"""How many of the sampled values are in which decade: the exponent of the first decade that has a value, and the counts
from there to the last decade that has one. Made for every gradient, so it is no class."""

NO_HISTOGRAM: Histogram = (0, ())
"""That of a gradient of which nothing was sampled."""


class Sampler:
    """Takes samples of matrices whose rows are gradients, on one stream of one device; none if it is idle."""

    def __init__(
        self, dtype: torch.dtype, device: torch.device, stream: object = None, *, is_idle: bool = False
    ) -> None:
        self.dtype = dtype
        self.stream = stream
        self._is_idle = is_idle
        self.scratch = Scratch()
        """For kernels on the same stream."""
        self._device = device
        self._rows: torch.Tensor | None = None
        self._numbers: list[int] = []
        self._sampled: list[tuple[list[int], torch.Tensor]] = []

    def add(self, numbers: list[int], matrix: torch.Tensor) -> None:
        """Sample each row; the rows belong to these numbers."""
        if self._is_idle:
            return
        if self._rows is None:
            # Unused elements of a row are zero, which no histogram counts.
            self._rows = torch.zeros((_ROWS, SAMPLE), dtype=self.dtype, device=self._device)
        elif len(self._numbers) + len(numbers) > _ROWS:
            self.flush()
            self._rows.zero_()
        sample = matrix[:, :: -(-matrix.shape[1] // SAMPLE)]
        start = len(self._numbers)
        self._rows[start : start + len(numbers), : sample.shape[1]] = sample
        self._numbers.extend(numbers)

    def codes(self) -> list[torch.Tensor]:
        """The decades of everything that was sampled, on the device; `histograms` takes them from memory."""
        return [codes for _, codes in self._sampled]

    def histograms(self, in_memory: Iterable[torch.Tensor]) -> Iterator[tuple[int, Histogram]]:
        """The histogram of each number."""
        for (numbers, _), codes in zip(self._sampled, in_memory, strict=True):
            yield from zip(numbers, histograms(codes), strict=True)

    def flush(self) -> None:
        """Find the decades of what was sampled. Call it on the stream on which it was."""
        if self._numbers and self._rows is not None:
            self._sampled.append((self._numbers, decades(self._rows[: len(self._numbers)])))
            self._numbers = []
