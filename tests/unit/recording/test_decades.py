"""Histograms: the decade of each value, read from its bits on the CPU."""

from __future__ import annotations

import math

import pytest
import torch

from gradviz.graph.gradients import FIRST_DECADE, LAST_DECADE
from gradviz.recording.backward.gradients.statistics import decades, histograms

_DTYPES = (torch.float32, torch.float64)


def _expected(matrix: torch.Tensor) -> torch.Tensor:
    """From the logarithm, as on other devices than the CPU; 0 where there is none."""
    exponents = matrix.abs().log10().floor()
    decade = exponents.clamp(FIRST_DECADE, LAST_DECADE) - FIRST_DECADE + 1
    return torch.where(exponents.isfinite(), decade, 0).to(torch.uint8)


@pytest.mark.parametrize("dtype", _DTYPES)
def test_decades_are_those_of_the_logarithm_also_next_to_powers_of_ten(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    mixed = torch.randn(4_096, generator=generator, dtype=dtype)
    mixed *= 10 ** torch.empty(4_096, dtype=dtype).uniform_(-25, 10, generator=generator)
    below = above = torch.tensor([10.0**exponent for exponent in range(-20, 9)], dtype=dtype)
    for _ in range(40):
        mixed = torch.cat([mixed, below, -above])
        below, above = below.nextafter(torch.zeros_like(below)), above.nextafter(2 * above)
    tiny = torch.finfo(dtype).tiny
    special = torch.tensor([0.0, -0.0, math.nan, math.inf, -math.inf, tiny, -tiny / 4], dtype=dtype)
    all_bits = torch.tensor([-1], dtype=torch.int32 if dtype == torch.float32 else torch.int64).view(dtype)
    matrix = torch.cat([mixed, special, all_bits, -all_bits]).unsqueeze(0)

    assert torch.equal(decades(matrix), _expected(matrix))


def test_a_histogram_begins_and_ends_with_a_decade_that_has_values() -> None:
    matrix = torch.tensor([[0.5, 0.25, 30.0, 0.0], [0.0, 0.0, math.nan, math.inf], [1e-30, 1e30, 1.0, 2.0]])

    mixed, empty, widest = histograms(decades(matrix))

    assert mixed == (-1, (2, 0, 1))
    assert empty == (0, ())
    assert widest == (FIRST_DECADE, (1, *[0] * 15, 2, 0, 0, 0, 0, 1))
