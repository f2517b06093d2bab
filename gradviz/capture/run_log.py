"""The log that `gradviz.watch` writes during a long run: at intervals, statistics of every parameter's gradient.

A row of statistics has one entry for each parameter, in the order of the header, and is kept as the packed bytes of an
array: a run of days is read at once, and only rows that are looked at become numbers.
"""

from __future__ import annotations

import sys
from array import array
from typing import Literal, TypeVar

from msgspec import Struct

from gradviz.capture.capture import Program
from gradviz.graph.bounded_types import Count, Index, PositiveCount

_Number = TypeVar("_Number", int, float)


class WatchedParameter(Struct, frozen=True, omit_defaults=True):
    """One parameter, as it was when watching began."""

    name: str
    shape: tuple[Count, ...] = ()
    dtype: str = "?"

    @property
    def count(self) -> int:
        """Elements."""
        product = 1
        for size in self.shape:
            product *= size
        return product


class RunHeader(Struct, frozen=True, omit_defaults=True):
    """What is watched, known before the first step."""

    program: Program
    parameters: tuple[WatchedParameter, ...]
    """The trainable parameters, in the order of the model."""
    every: PositiveCount = 1
    frozen: tuple[str, ...] = ()
    """Names of parameters that do not require a gradient and are not watched."""
    is_unscaled: bool = False
    """Whether gradients were divided by the factor of a gradient scaler."""


class StepFigures(Struct, frozen=True, omit_defaults=True):
    """The gradients of one measured step. Read `norms` and the like with `floats` and `integers`."""

    step: PositiveCount
    """The number of the backward call among those that reached a parameter, counted from 1."""
    norms: bytes = b""
    """L2 norms of the finite elements, float64; NaN where no gradient arrived, or none could be measured."""
    weight_norms: bytes = b""
    """Norms of the parameters themselves, float64, when the gradient arrived; NaN where unknown."""
    zeros: bytes = b""
    """Elements that are exactly zero, int64. This field and the next two are left out where all are 0."""
    nans: bytes = b""
    infs: bytes = b""
    unmeasured: dict[str, tuple[Index, ...]] = {}
    """Indices of parameters whose gradient arrived but could not be measured, by reason."""


class RunEnd(Struct, frozen=True, omit_defaults=True):
    """The end of watching, if the run was not interrupted."""

    steps: Count
    """Backward calls that were counted."""
    disclosures: tuple[str, ...] = ()
    """What could not be measured, one sentence each."""


class RunLog(Struct, frozen=True):
    """A run log, as far as it can be read."""

    header: RunHeader
    steps: tuple[StepFigures, ...]
    end: RunEnd | None = None
    """None where the run was interrupted, or is still going on."""
    cut: str | None = None
    """What is wrong with the bytes after the last step, if anything."""


def packed_floats(values: list[float]) -> bytes:
    """Bytes of a row of statistics: float64, little endian."""
    return _packed("d", values)


def packed_integers(values: list[int]) -> bytes:
    """Bytes of a row of counts: int64, little endian; empty where all are 0."""
    return _packed("q", values) if any(values) else b""


def floats(row: bytes) -> array[float]:
    """The numbers in a row of statistics."""
    return _unpacked(array("d"), row)


def integers(row: bytes, length: int) -> array[int]:
    """The numbers in a row of counts for `length` parameters."""
    return _unpacked(array("q"), row or bytes(8 * length))


def _packed(code: Literal["d", "q"], values: list[float] | list[int]) -> bytes:
    row = array(code, values)
    if sys.byteorder == "big":
        row.byteswap()
    return row.tobytes()


def _unpacked(row: array[_Number], data: bytes) -> array[_Number]:
    row.frombytes(data)
    if sys.byteorder == "big":
        row.byteswap()
    return row
