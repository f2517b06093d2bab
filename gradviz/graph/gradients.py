"""The gradients that flowed along the edges of a graph while backward ran: statistics, and runs of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeVar

from msgspec import Struct

from gradviz.graph.bounded_types import Cosine, Count, Decade, Finite, Index, Magnitude, Number, Size
from gradviz.graph.fingerprints import Fingerprint

_Entry = TypeVar("_Entry")

FIRST_DECADE = -16
LAST_DECADE = 5
"""Histograms count by powers of ten, from 1e-16 (and smaller) to 1e5 (and larger)."""


class TensorFigures(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """Statistics of a gradient, or of a value of the forward. They cover its finite elements; `nans` and `infs` count
    the others. For complex tensors they are statistics of the absolute values."""

    shape: tuple[Size, ...] = ()
    dtype: str = "?"
    device: str = "cpu"
    layout: str = "strided"
    is_undefined: bool = False
    """True where autograd sent no tensor (Python's None), which it treats as zero."""
    norm: Magnitude | None = None
    """L2 norm; None where the gradient is undefined, could not be measured, or has no finite value."""
    mean: Finite | None = None
    minimum: Finite | None = None
    maximum: Finite | None = None
    count: Count = 0
    """Elements."""
    zeros: Count = 0
    nans: Count = 0
    infs: Count = 0
    histogram: tuple[Count, ...] = ()
    """How many values have an absolute value in ``[1e-7, 1e-6)``, in the next decade, and so on; not of all elements,
    but of an evenly spaced sample. Zeros, NaN and Inf are in no decade."""
    histogram_from: Decade = 0
    """Exponent of the first decade in `histogram`: -7 for the example above."""
    values: tuple[Number, ...] | None = None
    """Every element in order, if it was asked for and the gradient is small."""
    unmeasured: str | None = None
    """Why it could not be measured, if so."""
    fingerprint: Fingerprint | None = None
    """Only if fingerprints were asked for."""
    placements: tuple[str, ...] = ()
    """Of a distributed tensor, for each dimension of its mesh: the figures are those of the part on this rank."""

    @property
    def largest(self) -> float | None:
        """The largest absolute value."""
        if self.minimum is None or self.maximum is None:
            return None
        return max(abs(self.minimum), abs(self.maximum))

    @property
    def is_measured(self) -> bool:
        """False for a gradient that is undefined or could not be measured."""
        return not self.is_undefined and self.unmeasured is None

    @property
    def is_zero(self) -> bool:
        """True for a measured gradient in which every element is exactly zero, also on other ranks."""
        return self.is_measured and self.zeros == self.count > 0 and all(map(is_whole, self.placements))


def is_whole(placement: str) -> bool:
    """Whether a rank has all of a tensor that lies like this on a dimension of the mesh."""
    return placement == "Replicate()"


def at_index(entries: Sequence[_Entry | None], index: int) -> _Entry | None:
    """One of a node's entries for its outputs or edges; None also where there are fewer."""
    return entries[index] if index < len(entries) else None


def holds_numbers(figures: Iterable[TensorFigures | None]) -> bool:
    """Whether any of them holds every number, as with ``--values``."""
    return any(each is not None and each.values is not None for each in figures)


class BranchShare(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """How one of several summed gradients relates to the sum."""

    share: Finite | None = None
    """Its inner product with the sum, divided by the square of the sum's norm: the shares of all branches add up to 1,
    and a branch that points against the sum has a negative share. None where the sum is zero."""
    cosine: Cosine | None = None
    """Cosine of the angle between it and the sum of all other branches: -1 where they cancel out. None where one of the
    two is zero, or too small to tell."""


class NodeRun(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """When the engine ran a node."""

    order: Index
    """Counted from 0 over all threads."""
    seconds: Finite = 0.0
    """From the end of the previous node on the same thread to its own end, without the time that gradviz needs to
    measure. Work on an accelerator is only started in that time, unless `is_gpu_time` is true."""
    thread: Index = 0
    """0 is the thread that called backward."""
    times: Count = 1
    """More than once where a backward inside this backward reached the node again."""
    is_gpu_time: bool = False
    """True where `seconds` is the time of the work itself on a CUDA GPU: from the end of what was queued before on its
    stream to its own end, in which the GPU may also wait for the processor or for another stream."""


class LeafGradient(Struct, frozen=True, omit_defaults=True, gc=False, repr_omit_defaults=True):
    """What a backward call did to the ``.grad`` of a leaf."""

    outcome: Literal["fresh", "accumulated", "unchanged", "taken"]
    """``fresh``: there was none before; ``accumulated``: added to the one before; ``unchanged``: nothing arrived;
    ``taken``: a gradient arrived, but a hook had removed it when backward returned."""
    before: TensorFigures | None = None
    after: TensorFigures | None = None
    reduced_by: str = ""
    """The wrapper that made ``.grad`` out of the local gradients of several ranks, such as ``DistributedDataParallel``;
    what arrived at the leaf is the local gradient of this rank. After `fully_shard`, `after` is the shard of this
    rank."""
