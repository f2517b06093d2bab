"""The saved total compared with the bytes that the allocator retains, and the parts of the difference."""

from __future__ import annotations

from dataclasses import dataclass

from gradviz.graph.model import Graph
from gradviz.graph.saved_tensors import AllocatorReading, Storage


@dataclass(frozen=True)
class Balance:
    """Bytes that one allocator gave out during the forward and did not get back, and what holds them."""

    reading: AllocatorReading
    saved: int
    """Kept by nodes, and made by the forward."""
    in_variables: int
    """Made by the forward, and kept by variables only."""
    rounding: int
    """Because the allocator gives out whole blocks."""

    @property
    def objects(self) -> int:
        """Torch's own objects: nodes, and tensors without their data."""
        return sum(each.count * each.bytes_of_one for each in self.reading.objects)

    @property
    def retained(self) -> int:
        """The total, according to the allocator."""
        return self.reading.after - self.reading.before

    @property
    def rest(self) -> int:
        """The part that none of these explains."""
        return self.retained - self.saved - self.in_variables - self.rounding - self.objects + self.reading.freed


def balances(graph: Graph) -> list[Balance]:
    """One for each device whose allocator was read."""
    kept = {saved.storage for node in graph.nodes for saved in node.saved}
    found = []
    for reading in graph.allocators:
        new = [
            (index, storage)
            for index, storage in enumerate(graph.storages)
            if storage.device == reading.device and not storage.made_before
        ]
        found.append(
            Balance(
                reading,
                saved=sum(storage.bytes for index, storage in new if index in kept),
                in_variables=sum(storage.bytes for index, storage in new if index not in kept),
                rounding=sum(_rounding(storage, reading.block) for _, storage in new),
            )
        )
    return found


def _rounding(storage: Storage, block: int) -> int:
    return -storage.bytes % block
