"""Takes fingerprints of tensors while a program runs, and returns them when they are asked for.

Problems solved here:

* Most tensors are small, and a dozen kernels for each would cost more than the program: tensors of at most `PIECE`
  elements are copied into rows, and the rows are read together.
* Reading a result of an accelerator makes the program wait: results stay on their device until the end, and come to
  memory in one copy for each device.
* The threads of the engine take fingerprints at the same time: each thread and each stream has its own rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from math import isfinite
from threading import get_ident
from typing import Any, NamedTuple

import torch

from gradviz.graph.fingerprints import Fingerprint
from gradviz.recording.copied_rows import CopiedRows
from gradviz.recording.fingerprints.arithmetic import (
    PIECE,
    Sums,
    added_up,
    alone,
    bits_for,
    fingerprint,
    largest_of,
    scales_for,
    sums_of,
)
from gradviz.recording.fingerprints.elements import as_real, has_readable_elements
from gradviz.recording.torch_access.engine import current_stream, queue_after, queued_on
from gradviz.recording.torch_access.transfers import in_memory

_MAX_ROWS = 64
_MAX_COPIED = 28_672
_ROWS_AT_ONCE = 7
"""Pieces of a large tensor that are read together: they stay in the cache, and torch starts no threads for so few."""
_ROWS_AT_ONCE_ELSEWHERE = 4_096


class _Read(NamedTuple):
    """Results that lie on a device: for each number one row."""

    numbers: list[int]
    pieces: int
    checksums: torch.Tensor
    figures: torch.Tensor
    """For each number: largest, how many are unusual."""
    projections: torch.Tensor
    squares: torch.Tensor


class FingerprintMeter:
    """Each tensor that is taken gets a number; `results` returns the fingerprints by number.

    Call its methods inside `measuring`.
    """

    def __init__(self) -> None:
        self._numbers = count()
        self._rows: dict[Any, CopiedRows] = {}
        self._read: list[_Read] = []
        self._streams: set[tuple[torch.device, Any]] = set()
        self._known: dict[int, Fingerprint] = {}

    def take(self, tensor: torch.Tensor, number: int | None = None) -> int | None:
        """Take a fingerprint, under `number` if it is given; None if the tensor cannot have one.

        Subclasses, sparse and nested tensors, and tensors without values have none.
        """
        if not has_readable_elements(tensor):
            return None
        if number is None:
            number = next(self._numbers)
        plain = as_real(tensor)
        if not plain.is_cpu:
            self._streams.add((plain.device, current_stream(plain.device)))
        if plain.numel() <= PIECE:
            self._rows_for(plain).add(number, plain.reshape(-1), self._read_rows)
        else:
            self._read.append(_read_large(number, plain))
        return number

    def results(self) -> dict[int, Fingerprint]:
        """Every fingerprint that was taken so far. Waits for each accelerator once."""
        for (*_, stream, _), rows in self._rows.items():
            with queued_on(stream):
                rows.flush(self._read_rows)
        queue_after(self._streams)
        self._streams.clear()
        read, self._read = self._read, []
        parts = in_memory([part for each in read for part in each[2:]])
        for index, each in enumerate(read):
            self._known.update(_fingerprints(each, parts[4 * index : 4 * index + 4]))
        return self._known

    def _rows_for(self, tensor: torch.Tensor) -> CopiedRows:
        stream = None if tensor.is_cpu else current_stream(tensor.device)
        key = tensor.numel(), tensor.dtype, tensor.device, stream, get_ident()
        rows = self._rows.get(key)
        if rows is None:
            size = tensor.numel()
            max_rows = min(_MAX_ROWS, _MAX_COPIED // size)
            rows = self._rows[key] = CopiedRows((size,), tensor.dtype, tensor.device, max_rows)
        return rows

    def _read_rows(self, numbers: list[int], rows: torch.Tensor) -> None:
        self._read.append(_read_rows(numbers, rows))


def _read_rows(numbers: list[int], rows: torch.Tensor) -> _Read:
    """Read tensors of one piece each."""
    bits = bits_for(1)
    largest, has_unusual = _largest(rows)
    sums = alone(sums_of(rows, scales_for(largest, bits[0]), bits, has_unusual=has_unusual))
    unusual = _count_unusual(rows) if has_unusual else torch.zeros_like(largest)
    return _Read(numbers, 1, sums.checksums, torch.stack((largest, unusual), 1), sums.projections, sums.squares)


def _read_large(number: int, tensor: torch.Tensor) -> _Read:
    """Read a tensor of several pieces, a few at a time."""
    row = tensor.reshape(-1)
    whole = row.numel() // PIECE * PIECE
    count = -(-row.numel() // PIECE)
    bits = bits_for(count)
    largest, has_unusual = _largest(row.unsqueeze(0))
    scale = scales_for(largest, bits[0])
    together = _ROWS_AT_ONCE if row.is_cpu else _ROWS_AT_ONCE_ELSEWHERE
    groups = list(torch.split(row[:whole].view(-1, PIECE), together))
    if whole < row.numel():
        groups.append(row[whole:].unsqueeze(0))
    sums = [sums_of(group, scale, bits, has_unusual=has_unusual) for group in groups]
    total = added_up(Sums(*(torch.cat(parts) for parts in zip(*sums, strict=True))))
    unusual = torch.zeros_like(largest)
    if has_unusual:
        unusual += torch.cat([_count_unusual(group) for group in groups]).sum()
    return _Read([number], count, total.checksums, torch.stack((largest, unusual), 1), total.projections, total.squares)


def _largest(rows: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """The largest absolute value of each row, and whether there may be NaN or Inf.

    On an accelerator they are always looked for: reading a result to decide would make the program wait.
    """
    if rows.is_cpu:
        largest = largest_of(rows, has_unusual=False)
        if isfinite(float(largest.sum())):
            return largest, False
    return largest_of(rows, has_unusual=True), True


def _count_unusual(rows: torch.Tensor) -> torch.Tensor:
    return rows.shape[1] - rows.double().isfinite().sum(1, dtype=torch.float64)


def _fingerprints(read: _Read, parts: Sequence[torch.Tensor]) -> Iterator[tuple[int, Fingerprint]]:
    checksums, figures, projections, squares = (part.tolist() for part in parts)
    for number, checksum, (largest, unusual), projected, square in zip(
        read.numbers, checksums, figures, projections, squares, strict=True
    ):
        yield number, fingerprint(checksum, largest, int(unusual), projected, square, read.pieces)
