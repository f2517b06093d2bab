"""What torch itself says of a graph: walked in the most direct way, and with no code of gradviz.

Nodes are numbered as the walk finds them. Everything is copied out as plain data, so that no tensor is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from tests.stored_tensors import stored_tensors


@dataclass(frozen=True)
class KnownSlot:
    """A tensor that a node saved for backward."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    storage: int
    """Equal for tensors that share their memory."""
    storage_bytes: int


@dataclass
class KnownNode:
    """One node as torch's own attributes tell it."""

    name: str
    edges: list[tuple[int, int] | None] = field(default_factory=list)
    """Number of the receiver and which of its inputs; None where ``next_functions`` has None."""
    leaf: int | None = None
    """Which of the sample's leaves it accumulates into."""
    slots: list[KnownSlot] = field(default_factory=list)
    odd_slots: set[str] = field(default_factory=set)
    """Slots with a tensor that has no memory of its own: sparse, nested, of a subclass."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """``_saved_*`` that are no tensors."""
    received: list[torch.Tensor | None] | None = None
    """Copies of the gradients that arrived at it; None if the engine did not run it."""
    sent: list[torch.Tensor | None] | None = None


@dataclass(frozen=True)
class KnownGraph:
    """Nodes, and for each root the number of its node and which of its outputs it is."""

    nodes: list[KnownNode]
    roots: list[tuple[int, int]]
    wrappers: list[Any]
    """The nodes themselves: of a leaf that is a root, nothing else keeps the node with its hooks."""


def walk_naively(roots: list[torch.Tensor], leaves: list[torch.Tensor], *, watch: bool = False) -> KnownGraph:
    """Every node that `roots` reach.

    With `watch`, hooks copy the gradients that pass, into `KnownNode.received` and `KnownNode.sent`, when backward
    runs later.
    """
    found: dict[Any, int] = {}
    wrappers: list[Any] = []

    def number_of(wrapper: Any) -> int:
        if wrapper not in found:
            found[wrapper] = len(wrappers)
            wrappers.append(wrapper)
        return found[wrapper]

    edges_of_roots = [torch.autograd.graph.get_gradient_edge(root) for root in roots]
    known_roots = [(number_of(edge.node), edge.output_nr) for edge in edges_of_roots]
    nodes: list[KnownNode] = []
    storages: dict[int, int] = {}
    for wrapper in wrappers:  # which grows meanwhile
        node = KnownNode(wrapper.name())
        for receiver, input_nr in wrapper.next_functions:
            node.edges.append(None if receiver is None else (number_of(receiver), input_nr))
        if hasattr(wrapper, "variable"):
            node.leaf = next((place for place, leaf in enumerate(leaves) if leaf is wrapper.variable), None)
        _read_slots(node, wrapper, storages)
        nodes.append(node)
        if watch:
            _watch(node, wrapper)
    return KnownGraph(nodes, known_roots, wrappers)


def _read_slots(node: KnownNode, wrapper: Any, storages: dict[int, int]) -> None:
    for slot, tensor in stored_tensors(wrapper):
        _note_slot(node, slot, tensor, storages)
    names = dir(wrapper)
    for attribute in names:
        if attribute.startswith("_saved_") and f"_raw{attribute}" not in names:
            node.attributes[attribute.removeprefix("_saved_")] = getattr(wrapper, attribute)


def _note_slot(node: KnownNode, name: str, tensor: torch.Tensor, storages: dict[int, int]) -> None:
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout != torch.strided or tensor.is_nested:
        node.odd_slots.add(name)
        return
    storage = tensor.untyped_storage()
    size = tensor.numel() * tensor.element_size()
    place = storages.setdefault(storage._cdata, len(storages))
    dtype = str(tensor.dtype).removeprefix("torch.")
    node.slots.append(KnownSlot(name, tuple(tensor.shape), dtype, size, place, storage.nbytes()))


def _watch(node: KnownNode, wrapper: Any) -> None:
    def note_received(gradients: tuple[torch.Tensor | None, ...]) -> None:
        node.received = [_copied(gradient) for gradient in gradients]

    def note_sent(sent: tuple[torch.Tensor | None, ...], _: object) -> None:
        node.sent = [_copied(gradient) for gradient in sent]

    wrapper.register_prehook(note_received)
    wrapper.register_hook(note_sent)


def _copied(gradient: torch.Tensor | None) -> torch.Tensor | None:
    return None if gradient is None else gradient.detach().clone()
