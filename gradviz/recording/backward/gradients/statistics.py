"""Figures of many tensors at once: each row of a matrix is one flattened tensor.

One row of the result: norm, sum, minimum, maximum, number of nonzero values, of NaN and of Inf. On the CPU a fast
method is tried first; it is right unless a row holds NaN, Inf or values near the limits of the dtype. Then, and always
on other devices, the careful method is used: there, reading a result to decide would make the program wait.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from gradviz.graph.gradients import FIRST_DECADE, LAST_DECADE

DECADES = LAST_DECADE - FIRST_DECADE + 1

_BLOCK = 65_536
"""A float32 norm over more elements than this loses digits; the norm of the norms of rows does not."""
_ROW = 16_384
_ROWS_AT_ONCE = 8
"""Rows of a large tensor that are measured together: they stay in the CPU's cache from kernel to kernel."""
_SAFE = (1e-15, 1e15)
"""Between these, squares and sums in float32 neither underflow nor overflow."""


vector_norm: Callable[..., torch.Tensor] = torch.linalg.vector_norm


def figures_of(matrix: torch.Tensor) -> torch.Tensor:
    """The figures of each row, a float64 matrix on the same device."""
    if not matrix.is_cpu:
        return _careful_figures(matrix)
    if matrix.dtype in (torch.float16, torch.bfloat16):
        matrix = matrix.float()  # results have the dtype of their input
    figures = _quick_figures(matrix)
    for _, _, minimum, maximum, *_ in figures.tolist():
        largest = max(maximum, -minimum)
        # False for NaN, too.
        if not (_SAFE[0] < largest < _SAFE[1] or largest == 0):
            return _careful_figures(matrix)
    return figures


def _quick_figures(matrix: torch.Tensor) -> torch.Tensor:
    if matrix.shape[1] > _BLOCK:
        return torch.stack([_quick_figures_of_large(row) for row in matrix])
    columns = _columns(matrix)
    none = torch.zeros_like(columns[0])
    return torch.stack((*columns, none, none), 1).double()


def _columns(matrix: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        vector_norm(matrix, dim=1),
        matrix.sum(1),
        matrix.amin(1),
        matrix.amax(1),
        _nonzero(matrix).sum(1),
    )


def _nonzero(tensor: torch.Tensor) -> torch.Tensor:
    """1 where an element is not zero, as numbers: more than twice as fast as count_nonzero."""
    return torch.ne(tensor, 0, out=torch.empty_like(tensor))


def _quick_figures_of_large(row: torch.Tensor) -> torch.Tensor:
    """In pieces, so that memory is read once and not again by each kernel."""
    pieces = torch.cat([torch.stack(_columns(piece)) for piece in _pieces(row)], 1).double()
    norms, sums, minima, maxima, nonzeros = pieces.unbind(0)
    none = sums.new_zeros(())
    return torch.stack((vector_norm(norms), sums.sum(), minima.amin(), maxima.amax(), nonzeros.sum(), none, none))


def _pieces(row: torch.Tensor) -> list[torch.Tensor]:
    """Matrices that together have all elements of a contiguous row."""
    in_rows = row.numel() // _ROW * _ROW
    pieces = list(torch.split(row[:in_rows].view(-1, _ROW), _ROWS_AT_ONCE))
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
    """The decade of each value, counted from 0; `DECADES` for zero, NaN and Inf."""
    exponents = matrix.abs().log10().floor()
    within = (exponents - FIRST_DECADE).clamp(0, DECADES - 1)
    return torch.where(exponents.isfinite(), within, DECADES).to(torch.uint8)


def histograms(codes: torch.Tensor) -> list[list[int]]:
    """How many values of each row are in each decade; `codes` is the result of `decades`, on the CPU."""
    first_bins = torch.arange(len(codes)).unsqueeze(1) * (DECADES + 1)
    counts = torch.bincount((codes + first_bins).flatten(), minlength=len(codes) * (DECADES + 1))
    return counts.view(-1, DECADES + 1)[:, :DECADES].tolist()
