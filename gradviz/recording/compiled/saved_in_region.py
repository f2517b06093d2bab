"""Says which operation of a compiled region each tensor belongs to that the region saved.

A compiled function saves what its partitioner chose, in its own order, and torch does not always tell what each tensor
is. So a saved tensor is taken for the first one of its shape that autograd would have saved: an input of the region for
an input, a result of an operation for a result. If autograd would have saved none, it is taken for the first result of
that shape. What fits nothing stays with the region's last operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from gradviz.graph.model import Node
from gradviz.graph.saved_tensors import SavedTensor, Storage


class WouldSave(NamedTuple):
    """A tensor that autograd saves for an operation, if the operation is not compiled."""

    node: int
    """The operation that needs it, by its id in the region."""
    slot: str
    shape: tuple[int | str, ...]
    dtype: str
    source: int | None
    """The operation that made it; None for an input of the region."""
    source_nr: int = 0
    memory: int = 0
    """The same for tensors that share their memory."""
    bytes: int = 0
    """Of that memory; 0 for that of an input."""


def with_saved_tensors(
    nodes: Sequence[Node], expected: Sequence[WouldSave], saved: Sequence[SavedTensor], storages: Sequence[Storage]
) -> list[Node]:
    """The operations of a region, each with the tensors that the region saved for it."""
    result = list(nodes)
    waiting = list(expected)
    results = [
        WouldSave(node.id, "result", facts.shape, facts.dtype, node.id, number)
        for node in nodes
        for number, facts in enumerate(node.outputs)
        if facts is not None
    ]
    for tensor in saved if result else ():
        found = _taken(waiting, tensor, storages) or _taken(results, tensor, storages)
        index = found.node if found is not None else len(result) - 1
        own = replace(
            tensor,
            slot=found.slot if found is not None else tensor.slot,
            source=found.source if found is not None else None,
            source_nr=found.source_nr if found is not None else 0,
        )
        result[index] = replace(result[index], saved=(*result[index].saved, own))
    return result


def _taken(candidates: list[WouldSave], tensor: SavedTensor, storages: Sequence[Storage]) -> WouldSave | None:
    """The first candidate like the tensor, which is removed."""
    position = next(_alike(candidates, tensor, storages), None)
    return None if position is None else candidates.pop(position)


def _alike(candidates: list[WouldSave], tensor: SavedTensor, storages: Sequence[Storage]) -> Iterator[int]:
    facts = tensor.tensor
    if facts is None:
        return
    kind = storages[tensor.storage].kind if tensor.storage is not None else "intermediate"
    for position, each in enumerate(candidates):
        sizes = (each.shape, each.shape[::-1] if len(each.shape) == 2 else each.shape)
        if facts.shape in sizes and facts.dtype == each.dtype and (each.source is None) == (kind != "intermediate"):
            yield position
