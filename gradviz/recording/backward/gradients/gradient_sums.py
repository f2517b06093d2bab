"""Where several gradients are summed: the share of each in the sum, and its direction.

Problems solved here:

* A branch is seen when its node sends it, the sum only when the last branch has arrived. Holding a branch would make
  the engine add out of place instead of in place, so it is copied, and the copies are freed when the sum has arrived.
* Copies of large gradients need memory that the program may not have: beyond `MAX_HELD_BYTES` nothing is copied.
* Two branches need no copy: their inner product follows from their norms and that of the sum.
* A hook on a sum may replace it, so there the sum is computed from the copies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import isfinite, prod, sqrt
from typing import Any, NamedTuple

import torch

from gradviz.graph.gradients import BranchShare
from gradviz.recording.torch_access.engine import current_stream, queue_after

Slot = tuple[int, int]
"""One output of a node: index of the node in the walk, and number of the output. For a sender: number of the edge."""

MAX_HELD_BYTES = 64 * 2**20
"""Copies at any time take at most this many bytes."""
TOO_LARGE = f"their branches take more than {MAX_HELD_BYTES >> 20} MiB"
NOT_DENSE = "a branch is sparse, a tensor subclass or without values"

CHANGED_BY_HOOK = "a hook on a node replaced the sum"

_MIN_REST = 1e-2
"""If the other branches together are smaller than this fraction of one, their direction is rounding noise."""


class Branches(NamedTuple):
    """The branches of a sum that has arrived."""

    senders: list[Slot | None]
    """None stands for the gradient that backward starts from."""
    products: torch.Tensor
    """Inner product of each with the sum, on their device until `GradientSums.in_memory` is told."""


@dataclass
class _Held:
    """Copies of the branches of a sum that has not arrived yet."""

    matrix: torch.Tensor
    senders: list[Slot | None]
    next_row: Iterator[int]
    streams: list[Any]
    """On which it was made, and from which branches were copied; empty on the processor."""

    def use_on_current_stream(self) -> None:
        """Order the current stream after the making of the copies, and their end after what it does with them."""
        if self.matrix.is_cpu:
            return
        stream = current_stream(self.matrix.device)
        if stream not in self.streams:
            queue_after([(self.matrix.device, self.streams[0])])
            self.matrix.record_stream(stream)
            self.streams.append(stream)


@dataclass
class GradientSums:
    """Copies branches on their way to the sums in `counts`, and multiplies them when the sum has arrived."""

    counts: Mapping[Slot, int]
    """How many branches each sum has, according to the graph."""
    unknown: Counter[str] = field(default_factory=Counter)
    """How many sums were given up, by reason."""
    branches: dict[Slot, Branches] = field(default_factory=dict)
    _held: dict[Slot, _Held] = field(default_factory=dict)
    _given_up: set[Slot] = field(default_factory=set)
    _held_bytes: int = 0

    def add(self, slot: Slot, sender: Slot | None, gradient: torch.Tensor) -> None:
        """Copy a branch. Runs without grad mode and without modes of any kind."""
        if slot in self._given_up:
            return
        if type(gradient) is not torch.Tensor or gradient.layout != torch.strided or gradient.is_meta:
            self._give_up(slot, NOT_DENSE)
            return
        held = self._held.get(slot)
        if held is None:
            held = self._room_for(slot, gradient)
            if held is None:
                return
        row = next(held.next_row)
        if row < len(held.senders):  # false if a node runs more often than the graph shows
            held.use_on_current_stream()
            held.matrix[row].copy_(gradient)
            held.senders[row] = sender

    def close(self, slot: Slot) -> torch.Tensor | None:
        """The sum has arrived: returns the sum of the copied branches; None if they were not copied."""
        held = self._held.pop(slot, None)
        if held is None:
            return None
        self._held_bytes -= held.matrix.nbytes
        # It was filled on the streams of senders, and must not be reused before this stream has read it.
        queue_after((held.matrix.device, stream) for stream in held.streams)
        held.use_on_current_stream()
        there = min(next(held.next_row), len(held.senders))
        rows = held.matrix[:there]
        whole = rows.sum(0)
        flat = (torch.view_as_real(rows) if rows.is_complex() else rows).reshape(there, -1)
        self.branches[slot] = Branches(held.senders[:there], flat @ flat.sum(0))
        return whole

    def close_all(self) -> None:
        """Backward has ended: gradients that were only asked for arrive at no node."""
        for slot in list(self._held):
            self.close(slot)

    def products(self) -> list[torch.Tensor]:
        """What was computed, on its device."""
        return [branches.products for branches in self.branches.values()]

    def in_memory(self, products: Iterable[torch.Tensor]) -> None:
        """The same in memory, in the same order."""
        for slot, there in zip(list(self.branches), products, strict=True):
            self.branches[slot] = self.branches[slot]._replace(products=there)

    def _room_for(self, slot: Slot, gradient: torch.Tensor) -> _Held | None:
        dtype = gradient.dtype if gradient.dtype in _WIDE else torch.float32
        size = self.counts[slot] * prod(gradient.shape) * dtype.itemsize
        if self._held_bytes + size > MAX_HELD_BYTES:
            self._give_up(slot, TOO_LARGE)
            return None
        # Zeros: a branch may be undefined, and then fills no row.
        matrix = torch.zeros((self.counts[slot], *gradient.shape), dtype=dtype, device=gradient.device)
        streams = [] if matrix.is_cpu else [current_stream(matrix.device)]
        self._held_bytes += size
        held = self._held[slot] = _Held(matrix, [None] * len(matrix), count(), streams)
        return held

    def _give_up(self, slot: Slot, reason: str) -> None:
        self._given_up.add(slot)
        self.unknown[reason] += 1
        held = self._held.pop(slot, None)
        if held is not None:
            self._held_bytes -= held.matrix.nbytes


_WIDE = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def shares_of(branches: Branches, norm_of: Callable[[Slot], float | None]) -> Iterator[tuple[Slot, BranchShare]]:
    """The share of each branch that a node sent; `norm_of` returns the norm of what it sent."""
    products = branches.products.double().tolist()
    whole = sum(products)
    for sender, product in zip(branches.senders, products, strict=True):
        norm = norm_of(sender) if sender is not None else None
        if sender is not None and norm is not None and isfinite(whole):
            own = norm * norm
            rest = whole - 2 * product + own
            yield sender, _share(product, whole, own, rest if rest > _MIN_REST**2 * own else 0.0)


def can_be_norm_of_sum(norms: Sequence[float], norm_of_sum: float) -> bool:
    """Whether vectors of these two norms can have a sum of that norm. If not, a hook on its node replaced the sum.

    torch has no list of such hooks; one that changes the sum by less is not noticed.
    """
    one, other = norms
    tolerance = _ROUNDING * (one + other)
    return abs(one - other) - tolerance <= norm_of_sum <= one + other + tolerance


_ROUNDING = 1e-2
"""The relative error of sums in bfloat16."""


def shares_of_two(norms: Sequence[float], norm_of_sum: float) -> Iterator[BranchShare]:
    """The shares of two branches, from their norms and that of their sum."""
    whole, squares = norm_of_sum * norm_of_sum, [norm * norm for norm in norms]
    can_tell = min(squares) > (_MIN_REST * 0.1) ** 2 * max(squares)
    for own, other in (squares, squares[::-1]):
        yield _share((whole + own - other) / 2, whole, own, other if can_tell else 0.0)


def _share(product: float, whole: float, own: float, rest: float) -> BranchShare:
    """From the inner product with the sum, and the squared norms of the sum, the branch and all others together."""
    share = product / whole if whole > 0 else None
    cosine = max(-1.0, min(1.0, (product - own) / sqrt(own * rest))) if own > 0 and rest > 0 else None
    # Squares of very large or very small gradients are out of the range of float64.
    return BranchShare(share if share is None or isfinite(share) else None, cosine if isfinite(own * rest) else None)
