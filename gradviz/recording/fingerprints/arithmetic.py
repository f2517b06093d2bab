"""The arithmetic of fingerprints: see `gradviz.graph.fingerprints` for what they are.

A tensor is a row of elements, cut into pieces of `PIECE`. For each piece: the sum of its bits times odd 64-bit weights,
and the inner products of its elements, rounded to whole numbers of a common unit, with `PROJECTIONS` vectors of signs.
The unit is a power of two that the largest element determines, so every product and partial sum is a whole number that
float64 holds exactly. Pieces are then added up as 64-bit integers, with a weight and signs for each piece.
"""

from __future__ import annotations

import sys
from functools import cache
from math import frexp, ldexp, sqrt
from typing import NamedTuple

import torch

from gradviz.graph.fingerprints import PROJECTIONS, Fingerprint, packed_projections
from gradviz.recording.fingerprints.elements import bits_of

PIECE = 4_096
_BITS = 38
"""Elements are rounded to whole numbers below 2**38: 4,096 of them add up to less than 2**53."""
_BITS_OF_SQUARES = 18
_MIN_EXPONENT, _MAX_EXPONENT = -900, 1025
_MAX = sys.float_info.max

_WEIGHTS_SEED, _SIGNS_SEED, _PIECE_WEIGHTS_SEED, _PIECE_SIGNS_SEED = 1 << 40, 2 << 40, 3 << 40, 4 << 40


class Sums(NamedTuple):
    """What is known of several rows, on the device of the tensors; one row for each piece."""

    checksums: torch.Tensor
    projections: torch.Tensor
    squares: torch.Tensor


def bits_for(pieces: int) -> tuple[int, int]:
    """Bits to which elements, and elements whose squares are added, are rounded in a tensor of so many pieces."""
    room = 50 - pieces.bit_length()
    return min(_BITS, room), min(_BITS_OF_SQUARES, room // 2)


def sums_of(pieces: torch.Tensor, scales: torch.Tensor, bits: tuple[int, int], *, has_unusual: bool) -> Sums:
    """The sums of every row of a real matrix with at most `PIECE` columns.

    Args:
        scales: a power of two for each row, by which its elements are multiplied.
        has_unusual: whether there may be NaN or Inf.
    """
    weights, signs = _tables(pieces.device)
    count = pieces.shape[1]
    checksums = (bits_of(pieces) * weights[:count]).sum(1)
    numbers = pieces.double()
    if has_unusual:
        numbers = torch.where(numbers.isfinite(), numbers, 0.0)
    numbers = (numbers * scales.unsqueeze(1)).round_()
    if pieces.is_cpu:
        projections = numbers @ signs[:count]
    else:
        # A product of matrices on CUDA is refused where only deterministic algorithms are allowed.
        projections = torch.stack([(numbers * signs[:count, k]).sum(1) for k in range(PROJECTIONS)], 1)
    numbers = numbers.mul_(ldexp(1.0, bits[1] - bits[0])).round_()
    return Sums(checksums, projections.long(), numbers.square_().sum(1).long())


def largest_of(rows: torch.Tensor, *, has_unusual: bool) -> torch.Tensor:
    """The largest absolute value in each row, float64; NaN or Inf are left out if there may be some."""
    if rows.dtype is torch.bool:
        rows = rows.byte()
    if has_unusual:
        numbers = rows.double()
        return torch.where(numbers.isfinite(), numbers, 0.0).abs().amax(1)
    try:
        low, high = _extremes(rows)
    except (RuntimeError, NotImplementedError):  # no kernel for this dtype
        low, high = _extremes(rows.double())
    return torch.maximum(high.double(), -low.double())


def _extremes(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if len(rows) == 1:  # many times as fast as along a dimension
        low, high = torch.aminmax(rows)
        return low.view(1), high.view(1)
    return rows.amin(1), rows.amax(1)


def scales_for(largest: torch.Tensor, bits: int) -> torch.Tensor:
    """The power of two that makes each of these numbers, the largest of a row, less than ``2**bits``."""
    exponents = torch.frexp(largest).exponent.long().clamp(_MIN_EXPONENT, _MAX_EXPONENT)
    table = _powers_of_two(largest.device)
    return table[(bits - exponents).clamp(max=1_000) + _POWERS_FROM]


def added_up(sums: Sums) -> Sums:
    """The sums of one tensor from those of its pieces, as a single row."""
    weights, signs = _piece_tables(len(sums.checksums), sums.checksums.device)
    return Sums(
        (sums.checksums * weights).sum(0, keepdim=True),
        (sums.projections * signs).sum(0, keepdim=True),
        sums.squares.sum(0, keepdim=True),
    )


def alone(sums: Sums) -> Sums:
    """The same for tensors that have one piece each."""
    weights, signs = _piece_tables(1, sums.checksums.device)
    return Sums(sums.checksums * weights, sums.projections * signs, sums.squares)


def fingerprint(
    checksum: int, largest: float, unusual: int, projections: list[int], squares: int, pieces: int
) -> Fingerprint:
    """The fingerprint of a tensor with so many pieces from its sums."""
    bits, bits_of_squares = bits_for(pieces)
    exponent = min(max(frexp(largest)[1], _MIN_EXPONENT), _MAX_EXPONENT)
    shift = max(exponent - bits, -1_000)
    unit = ldexp(1.0, shift)
    # Of numbers near the largest that float64 has, norm and projections would be infinite.
    norm = min(sqrt(squares) * ldexp(unit, bits - bits_of_squares), _MAX)
    projected = [max(-_MAX, min(unit * each, _MAX)) for each in projections]
    return Fingerprint(checksum & 0xFFFFFFFFFFFFFFFF, norm, largest, unusual, packed_projections(projected))


# -- Weights and signs: the same for every recording ever made ---------------------------------------------------------


def _random_bits(number: int) -> int:
    """64 bits that look random: splitmix64 of `number`."""
    mask = 0xFFFFFFFFFFFFFFFF
    z = (number * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _odd_weights(seed: int, count: int) -> torch.Tensor:
    return torch.tensor([_signed(_random_bits(seed + index) | 1) for index in range(count)], dtype=torch.int64)


def _sign_rows(seed: int, count: int) -> list[list[int]]:
    rows = (_random_bits(seed + index) for index in range(count))
    return [[1 if bits >> (8 + k) & 1 else -1 for k in range(PROJECTIONS)] for bits in rows]


@cache
def _tables(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights of the elements of a piece, and their signs for each projection."""
    signs = torch.tensor(_sign_rows(_SIGNS_SEED, PIECE), dtype=torch.float64)
    return _odd_weights(_WEIGHTS_SEED, PIECE).to(device), signs.to(device)


_POWERS_FROM = 1_074


@cache
def _powers_of_two(device: torch.device) -> torch.Tensor:
    """Exactly: torch's own ``exp2`` and ``ldexp`` may be off in the last bit."""
    powers = [ldexp(1.0, exponent) for exponent in range(-_POWERS_FROM, 1_024)]
    return torch.tensor(powers, dtype=torch.float64).to(device)


def _piece_tables(count: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    size = max(64, 1 << (count - 1).bit_length())
    weights, signs = _piece_tables_of_size(size, device)
    return weights[:count], signs[:count]


@cache
def _piece_tables_of_size(size: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    signs = torch.tensor(_sign_rows(_PIECE_SIGNS_SEED, size), dtype=torch.int64)
    return _odd_weights(_PIECE_WEIGHTS_SEED, size).to(device), signs.to(device)
