"""Copies small tensors of one size into the rows of a matrix, so that one kernel reads many of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import torch

Read = Callable[[list[int], torch.Tensor], None]
"""Gets the numbers of some tensors, and a matrix with one flattened tensor in each row."""


class CopiedRows:
    """Tensors of one shape, each copied to a row; the rows are read when all are in use.

    The first few rows are few, because most shapes of a program come only once or twice. The function that reads is
    not kept: as a method of what owns the rows, it would make a cycle, which only the garbage collector frees.
    """

    def __init__(self, shape: Sequence[int], dtype: torch.dtype, device: torch.device, max_rows: int) -> None:
        self._shape, self._dtype, self._device = shape, dtype, device
        self._max_rows = max(1, max_rows)
        self._numbers: list[int] = []
        self._matrix: torch.Tensor | None = None
        self._rows: tuple[torch.Tensor, ...] = ()

    def add(self, number: int, tensor: torch.Tensor, read: Read) -> None:
        """Copy a tensor of that shape, under this number; `read` those before it if no row is free."""
        if len(self._numbers) == len(self._rows):
            self.flush(read)
            self._make_room()
        self._rows[len(self._numbers)].copy_(tensor)
        self._numbers.append(number)

    def flush(self, read: Read) -> None:
        """Read the rows in use."""
        if self._numbers:
            assert self._matrix is not None
            read(self._numbers, self._matrix[: len(self._numbers)])
            self._numbers = []

    def _make_room(self) -> None:
        wanted = min(self._max_rows, 4 * len(self._rows) or 2)
        if wanted > len(self._rows):
            self._matrix = torch.empty((wanted, prod(self._shape)), dtype=self._dtype, device=self._device)
            self._rows = self._matrix.view(wanted, *self._shape).unbind(0)
