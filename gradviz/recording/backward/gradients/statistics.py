"""Figures of many tensors at once: each row of a matrix is one flattened tensor.

One row of the result: norm, sum, minimum, maximum, number of nonzero values, of NaN and of Inf. On the CPU a fast
method is tried first; it is right unless a row holds NaN, Inf or values near the limits of the dtype. Then, and always
on other devices, the careful method is used: there, reading a result to decide would make the program wait.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import torch

from gradviz.graph.gradients import FIRST_DECADE, LAST_DECADE
from gradviz.recording.torch_access.transfers import bytes_of, numbers_in

DECADES = LAST_DECADE - FIRST_DECADE + 1

FIGURES = 7
"""Columns of the result."""

_BLOCK = 65_536
"""A float32 norm over more elements than this loses digits; the norm of the norms of rows does not."""
_ROW = 32_704
"""So many elements of a large tensor are measured together: they stay in the CPU's cache from kernel to kernel, and are
too few to wake other threads for, as torch does from 32,768 on. Half as many take half as long again."""
_SAFE = (1e-15, 1e15)
"""Between these, squares and sums in float32 neither underflow nor overflow."""


vector_norm: Callable[..., torch.Tensor] = torch.linalg.vector_norm


class Scratch:
    """Memory that one kernel after the other writes to.

    Fresh memory costs more than the kernel that writes to it: the C library gives freed memory back to the system, and
    gets it again page by page.
    """

    def __init__(self) -> None:
        self._buffer: torch.Tensor | None = None

    def like(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor of that size, with any values; what this returned before must not be in use any more."""
        size, buffer = tensor.numel(), self._buffer
        if buffer is None or buffer.numel() < size or buffer.dtype != tensor.dtype:
            buffer = self._buffer = torch.empty(max(size, _ROW), dtype=tensor.dtype, device=tensor.device)
        return buffer[:size].view(tensor.shape)


def figures_of(matrix: torch.Tensor, scratch: Scratch) -> torch.Tensor:
    """The figures of each row, a float64 matrix on the same device."""
    if not matrix.is_cpu:
        return _careful_figures(matrix)
    if matrix.dtype in (torch.float16, torch.bfloat16):
        matrix = matrix.float()  # results have the dtype of their input
    figures = _quick_figures(matrix, scratch)
    numbers = numbers_in(figures)
    for minimum, maximum in zip(numbers[2::FIGURES], numbers[3::FIGURES], strict=True):
        largest = max(maximum, -minimum)
        # False for NaN, too.
        if not (_SAFE[0] < largest < _SAFE[1] or largest == 0):
            return _careful_figures(matrix)
    return figures


def _quick_figures(matrix: torch.Tensor, scratch: Scratch) -> torch.Tensor:
    if matrix.shape[1] > _BLOCK:
        return torch.stack([_quick_figures_of_large(row, scratch) for row in matrix])
    columns = _columns(matrix, scratch)
    none = torch.zeros_like(columns[0])
    return torch.stack((*columns, none, none), 1).double()


def _columns(matrix: torch.Tensor, scratch: Scratch) -> tuple[torch.Tensor, ...]:
    return (
        vector_norm(matrix, dim=1),
        matrix.sum(1),
        matrix.amin(1),
        matrix.amax(1),
        # 1 where an element is not zero, as numbers: more than twice as fast as count_nonzero.
        torch.ne(matrix, 0, out=scratch.like(matrix)).sum(1),
    )


def _quick_figures_of_large(row: torch.Tensor, scratch: Scratch) -> torch.Tensor:
    """In pieces, so that memory is read once and not again by each kernel."""
    pieces = torch.cat([torch.stack(_columns(piece, scratch)) for piece in _pieces(row)], 1).double()
    norms, sums, minima, maxima, nonzeros = pieces.unbind(0)
    none = sums.new_zeros(())
    return torch.stack((vector_norm(norms), sums.sum(), minima.amin(), maxima.amax(), nonzeros.sum(), none, none))


def _pieces(row: torch.Tensor) -> list[torch.Tensor]:
    """Matrices that together have all elements of a contiguous row."""
    in_rows = row.numel() // _ROW * _ROW
    pieces = list(torch.split(row[:in_rows].view(-1, _ROW), 1))
    return [*pieces, row[in_rows:].unsqueeze(0)] if in_rows < row.numel() else pieces


def _careful_figures(matrix: torch.Tensor) -> torch.Tensor:
    """The figures of the finite values of each row, a float64 matrix on the same device."""
    is_finite = matrix.isfinite()
    finite = torch.where(is_finite, matrix, 0)
    columns = (
        vector_norm(finite, dim=1, dtype=torch.float64),
        finite.sum(1, dtype=torch.float64),
        torch.where(is_finite, matrix, torch.inf).amin(1),
        torch.where(is_finite, matrix, -torch.inf).amax(1),
        torch.count_nonzero(matrix, 1),
        matrix.isnan().sum(1),
        matrix.isinf().sum(1),
    )
    return torch.stack([column.double() for column in columns], 1)


def norm_of(tensor: torch.Tensor) -> torch.Tensor:
    """The L2 norm of a whole tensor, left on its device."""
    if not tensor.is_cpu or tensor.dtype in (torch.float16, torch.bfloat16):
        return vector_norm(tensor, dtype=torch.complex128 if tensor.is_complex() else torch.float64)
    if tensor.numel() <= _BLOCK:
        return vector_norm(tensor)
    return vector_norm(torch.cat([vector_norm(piece, dim=1) for piece in _pieces(tensor.reshape(-1))]))


def decades(matrix: torch.Tensor) -> torch.Tensor:
    """The decade of each value, counted from 1; 0 for zero, NaN and Inf.

    On the CPU it is read from the bits of the numbers, to the same result: all numbers with one exponent lie in one
    decade, or in two with a bound between them. A logarithm takes longer than all other figures together, and wakes
    other threads for a few thousand numbers.
    """
    if matrix.is_cpu:
        layout = _LAYOUTS[matrix.dtype]
        bits = matrix.view(layout.integers) & layout.all_but_sign
        row = bits.view(-1)
        exponents = row >> layout.exponent_at
        first, last = (
            torch.frombuffer(table, dtype=dtype)
            for table, dtype in zip(_decades_by_exponent(matrix.dtype), (torch.uint8, layout.integers), strict=True)
        )
        return first.index_select(0, exponents).add_(row > last.index_select(0, exponents)).view(matrix.shape)
    exponents = matrix.abs().log10().floor()
    within = (exponents - FIRST_DECADE).clamp(0, DECADES - 1)
    return torch.where(exponents.isfinite(), within + 1, 0).to(torch.uint8)


class _Layout(NamedTuple):
    """How numbers of a dtype are stored."""

    integers: torch.dtype
    code: str
    """Of the same integers, for `array`."""
    exponent_at: int
    exponents: int

    @property
    def all_but_sign(self) -> int:
        return (self.exponents << self.exponent_at) - 1


_LAYOUTS = {torch.float32: _Layout(torch.int32, "i", 23, 256), torch.float64: _Layout(torch.int64, "q", 52, 2048)}


@cache
def _decades_by_exponent(dtype: torch.dtype) -> tuple[bytearray, bytearray]:
    """For each exponent: the decade of the smallest number that has it, and the bits of the last number in there.

    They are no tensors, because what stays must not be among the tensors that a program finds alive.
    """
    layout = _LAYOUTS[dtype]
    bounds = _first_of_decades(dtype).view(layout.integers).tolist()
    end = layout.all_but_sign
    first, last = [0], [0]
    for exponent in range(1, layout.exponents - 1):
        decade = bisect_right(bounds, exponent << layout.exponent_at)
        first.append(decade + 1)
        last.append(bounds[decade] - 1 if decade < len(bounds) else end)
    return bytearray([*first, 0]), bytearray(array(layout.code, [*last, end]))


def _first_of_decades(dtype: torch.dtype) -> torch.Tensor:
    """The smallest number of each decade but the first, as the logarithm is rounded: some are below the power of 10."""
    exponents = torch.arange(FIRST_DECADE + 1, LAST_DECADE + 1)
    bounds = torch.tensor([10.0**exponent for exponent in exponents.tolist()], dtype=dtype)
    while True:
        lower = bounds.nextafter(torch.zeros_like(bounds))
        belongs = lower.log10() >= exponents
        if not belongs.any():
            return bounds
        bounds = torch.where(belongs, lower, bounds)


def histograms(codes: torch.Tensor) -> Iterator[tuple[int, tuple[int, ...]]]:
    """For each row: its first decade, and how many values are in it and in each decade up to the last that has some.

    `codes` is the result of `decades`, on the CPU.
    """
    first_bins = torch.arange(len(codes), device="cpu").unsqueeze(1) * (DECADES + 1)
    counts = torch.bincount((codes + first_bins).flatten(), minlength=len(codes) * (DECADES + 1))
    # At most as many as are sampled, which a byte holds.
    rows = bytes_of(counts.to(torch.uint8))
    for start in range(1, len(rows), DECADES + 1):
        row = rows[start : start + DECADES]
        filled = row.lstrip(b"\0")
        first = FIRST_DECADE + DECADES - len(filled) if filled else 0
        yield first, tuple(filled.rstrip(b"\0"))
