"""What the tests of rules leave out of a recording, as no rule reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
import torch

from gradviz.recording.backward.gradients import gradient_meter
from gradviz.recording.backward.gradients.histograms import Histogram, Sampler
from gradviz.recording.torch_access import allocators


@pytest.fixture(autouse=True)
def no_totals_of_allocators(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a total the C library walks all free blocks: in a process of many tests, a tenth of the time."""
    monkeypatch.setattr(allocators, "read", dict)


class _NoHistograms(Sampler):
    """Gives every gradient the empty histogram, which one of zeros has."""

    def add(self, numbers: list[int], matrix: torch.Tensor) -> None:
        self._numbers.extend(numbers)

    def codes(self) -> list[torch.Tensor]:
        return []

    def histograms(self, in_memory: Iterable[torch.Tensor]) -> Iterator[tuple[int, Histogram]]:
        for number in self._numbers:
            yield number, (0, ())

    def flush(self) -> None:
        pass


@pytest.fixture(autouse=True)
def no_histograms_of_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only pictures and pages show them; for small gradients they take half as long as all other figures."""
    monkeypatch.setattr(gradient_meter, "Sampler", _NoHistograms)
