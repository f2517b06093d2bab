"""Fingerprints of tensors: enough to see one changed element, and to tell how far apart two tensors are.

A fingerprint has the same size for every tensor. It is computed from the bits with integer arithmetic, or with sums of
whole numbers that a float64 holds exactly, so the order of the additions does not matter: the same bits have the same
fingerprint on every machine, device and number of threads.

* `checksum`: a weighted sum of the bits, modulo 2**64, with an odd weight for each position. If a single element
  changes, the sum changes.
* `projections`: inner products with vectors of random signs, the same for all tensors. The difference of the
  projections of two tensors has, on average over the signs, the length of the difference of the tensors
  (Johnson-Lindenstrauss): with `PROJECTIONS` of them, within about a quarter. For these, every element is rounded to
  2**-38 of the largest one.
* `norm` and `largest`: what the distance is compared with.
"""

from __future__ import annotations

import struct
from math import dist, inf, sqrt
from typing import Annotated

from msgspec import Meta, Struct

from gradviz.graph.bounded_types import Bits64, Count, Magnitude

PROJECTIONS = 8
_PACKED = struct.Struct(f"<{PROJECTIONS}d")


class Fingerprint(Struct, frozen=True, array_like=True, gc=False):
    """The fingerprint of one tensor. Its elements are those of the tensor in order, whatever the strides."""

    checksum: Bits64
    norm: Magnitude
    """L2 norm of the finite elements, to about five digits."""
    largest: Magnitude
    """The largest absolute value of the finite elements, exactly."""
    unusual: Count
    """How many elements are NaN or Inf; the projections count them as zero."""
    packed: Annotated[bytes, Meta(min_length=_PACKED.size, max_length=_PACKED.size)]
    """The projections, float64, little endian."""

    @property
    def projections(self) -> tuple[float, ...]:
        return _PACKED.unpack(self.packed)


def packed_projections(values: list[float]) -> bytes:
    """The projections as a fingerprint keeps them."""
    return _PACKED.pack(*values)


def distance(one: Fingerprint, other: Fingerprint) -> float:
    """About how far apart two tensors with the same number of elements are, relative to the larger norm.

    0.0 for the same bits; infinite if they do not have the same number of NaN and Inf.
    """
    if one.checksum == other.checksum:
        return 0.0
    if one.unusual != other.unusual:
        return inf
    apart = dist(one.projections, other.projections) / sqrt(PROJECTIONS)
    scale = max(one.norm, other.norm)
    return apart / scale if scale else 0.0
