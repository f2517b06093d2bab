"""Measures how much CPU memory torch's own objects take: nodes, and the tensors and storages that nodes keep.

The allocator counts them, but the size of a single object cannot be asked for. So dozens of each kind are made, and the
allocator is read before and after: the result is the size of the smallest of its kind in this process, with this torch.
This runs on a thread of its own, because torch counts nodes for each thread: the program's numbers do not change.

To read the allocator takes longer, the more free blocks it has: 0.1 ms in a new process, 20 ms after a backward through
50,000 nodes. So a recorder measures when it starts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from statistics import median
from typing import Any

import torch
from msgspec.structs import replace

from gradviz.collector import collector_paused
from gradviz.graph.model import Graph, Node
from gradviz.graph.saved_tensors import AllocatorReading, Storage, TorchObjects
from gradviz.recording.torch_access.allocators import bytes_from_malloc
from gradviz.recording.torch_access.own_thread import result_of_own_thread
from gradviz.recording.torch_access.tensors import address_of, is_view

NODES, SLOTS, TENSORS, VIEWS, DETACHED, STORAGES = "nodes", "slots", "tensors", "views", "results", "storages"

_LARGER: dict[str, tuple[int, Callable[[torch.Tensor], torch.Tensor]]] = {
    "AddmmBackward0": (2, lambda leaf: torch.addmm(leaf, leaf, leaf)),
    "AddBackward0": (0, lambda leaf: leaf + leaf),
    "MulBackward0": (2, lambda leaf: leaf * leaf),
}
"""Nodes that keep much besides tensors, for example sizes and strides: number of slots, and how to make one."""

_TIMES = 64
_TURNS = 5
_SPARE = 16


class ObjectCounter:
    """Counts what nodes keep; a tensor that several keep counts once."""

    def __init__(self) -> None:
        self._slots = 0
        self._kinds: dict[int, tuple[str, int]] = {}
        """Kind and index of the storage, by address of the C++ tensor, which the graph keeps alive."""

    def add(self, tensor: torch.Tensor, storage: int) -> None:
        """A tensor in a node's own slot. Reads nothing that could make a node."""
        self._slots += 1
        if is_view(tensor):
            self._kinds[address_of(tensor)] = VIEWS, storage
        elif type(tensor) is torch.Tensor:
            self._kinds[address_of(tensor)] = TENSORS if tensor.requires_grad else DETACHED, storage

    def counted(self, nodes: Sequence[Node], storages: Sequence[Storage]) -> tuple[TorchObjects, ...]:
        """How many objects of each kind the forward made; their sizes are measured later."""
        of_tensors = Counter(
            sort for sort, storage in self._kinds.values() if sort == VIEWS or not storages[storage].made_before
        )
        made = sum(storage.device == "cpu" and not storage.made_before for storage in storages)
        large = Counter(node.name for node in nodes if node.name in _LARGER)
        counts = {NODES: len(nodes), SLOTS: self._slots, **of_tensors, STORAGES: made, **large}
        return tuple(TorchObjects(what, count) for what, count in counts.items() if count)


def with_sizes(graph: Graph) -> Graph:
    """The graph with sizes of the objects that were counted; without the objects if sizes cannot be measured."""
    if not any(reading.objects for reading in graph.allocators):
        return graph
    sizes = sizes_of_objects()
    return replace(graph, allocators=tuple(_with_sizes(reading, sizes) for reading in graph.allocators))


def _with_sizes(reading: AllocatorReading, sizes: Mapping[str, int]) -> AllocatorReading:
    known = [each for each in reading.objects if each.what in sizes]
    return replace(reading, objects=tuple(replace(each, bytes_of_one=sizes[each.what]) for each in known))


@lru_cache(maxsize=1)
def sizes_of_objects() -> dict[str, int]:
    """Bytes of one object of each kind; empty if the allocator cannot be read."""
    in_use = bytes_from_malloc()
    return {} if in_use is None else result_of_own_thread(lambda: dict(_measured(in_use)))


def _measured(in_use: Callable[[], int]) -> Iterator[tuple[str, int]]:
    # The thread has torch's defaults: grad mode is on, and no mode of the program is active.
    leaf = torch.ones((1, 1), device="cpu", dtype=torch.float32, requires_grad=True)
    plain = leaf.detach()

    def each(make: Callable[[], Any]) -> int:
        return int(median(_bytes_of_one(make, in_use) for _ in range(_TURNS)))

    with collector_paused():
        node = each(lambda: leaf.neg().grad_fn)
        storage = each(lambda: torch.empty(_ELEMENTS, dtype=torch.float32, device="cpu")) - 4 * _ELEMENTS
        detached = each(plain.detach)
        yield NODES, node
        slot = each(lambda: leaf.sin().grad_fn) - node
        yield SLOTS, slot
        for name, (slots, make) in _LARGER.items():
            yield name, max(0, each(partial(_node_of, make, leaf)) - node - slots * slot)
        yield DETACHED, detached
        yield TENSORS, each(lambda: leaf.neg()) - node - (each(lambda: plain.neg()) - detached)
        yield VIEWS, each(lambda: leaf.t()) - node
        yield STORAGES, storage - detached


_ELEMENTS = 2_000


def _node_of(make: Callable[[torch.Tensor], torch.Tensor], leaf: torch.Tensor) -> Any:
    return make(leaf).grad_fn


def _bytes_of_one(make: Callable[[], Any], in_use: Callable[[], int]) -> int:
    kept: list[Any] = [None] * _TIMES
    # Blocks that this thread freed count as used until it takes them again; these objects take them.
    spare = [make() for _ in range(_SPARE)]
    before = in_use()
    for index in range(_TIMES):
        kept[index] = make()
    size = max(0, in_use() - before) // _TIMES
    del spare
    return size
