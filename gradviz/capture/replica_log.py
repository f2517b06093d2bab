"""Fingerprints of the parameters that all ranks of a job should have alike, before each backward and around each step.

Of a long run not every step is kept: see `is_noted`. What is kept is the same on every rank.
"""

from __future__ import annotations

import hashlib
import struct
from math import isfinite
from typing import Literal

from msgspec import Struct

from gradviz.graph.bounded_types import Count, LineNumber
from gradviz.graph.invariants import InvalidGraph

_EACH = struct.Struct("<Qd")
_NOTED_WHOLE = 16
"""So many backward calls are noted at first, and then between half as many and as many of each doubling."""

MomentKind = Literal["backward", "gradients", "step"]


class ReplicaMoment(Struct, frozen=True, omit_defaults=True, gc=False):
    """The parameters, or their gradients, at one moment."""

    kind: MomentKind
    """``backward``: parameters before a backward call; ``gradients``: their ``.grad`` before a step of an optimizer;
    ``step``: parameters after it."""
    backward: Count
    """The number of the backward call, or of the last one before the step."""
    packed: bytes
    """For each name of the log: checksum of the bits and L2 norm; zeros where nothing could be read."""
    file: str = ""
    line: LineNumber = 0
    """The program's line that called backward or the step."""

    @property
    def checksums(self) -> list[tuple[int, float]]:
        """Checksum and norm for each name."""
        return list(_EACH.iter_unpack(self.packed))

    @property
    def digest(self) -> bytes:
        """Eight bytes that are the same if all checksums are."""
        return hashlib.blake2b(self.packed, digest_size=8).digest()


class ReplicaLog(Struct, frozen=True):
    """What one rank noted of them."""

    names: tuple[str, ...]
    """Dotted names of the parameters."""
    moments: tuple[ReplicaMoment, ...]
    """In order."""
    unreduced: tuple[str, ...] = ()
    """Those whose wrapper was never called in the program: it does not reduce their gradients then."""


def check_replicas(log: ReplicaLog) -> None:
    """Raise `InvalidGraph` if the log of a file cannot be read."""
    for number, moment in enumerate(log.moments):
        if len(moment.packed) != _EACH.size * len(log.names):
            raise InvalidGraph(f"moment {number} holds {len(moment.packed)} bytes for {len(log.names)} parameters")
        if any(not isfinite(norm) for _, norm in moment.checksums):
            raise InvalidGraph(f"moment {number} holds a norm that is not finite")


def packed(checksums: list[tuple[int, float]]) -> bytes:
    """As `ReplicaMoment.packed` has them."""
    return b"".join(_EACH.pack(*each) for each in checksums)


def is_noted(backward: int) -> bool:
    """Whether the parameters are read at this backward call: all of the first ones, then ever fewer."""
    return backward <= _NOTED_WHOLE or backward % (1 << (backward.bit_length() - _NOTED_WHOLE.bit_length() + 1)) == 0
