"""The memory that a graph keeps until its backward has run: every storage once, with the nodes that keep it.

A storage counts at the *first* node, in the order of the computation, that keeps it, so that the figures of lines,
modules and operations each add up to the same total. Parameters and buffers exist anyway and count separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import Struct

from gradviz.graph.model import Graph, Node
from gradviz.graph.saved_tensors import SavedTensor, Storage, StorageKind
from gradviz.graph.tensor_facts import TensorFacts

OWNED_BY_MODULES: frozenset[StorageKind] = frozenset({"parameter", "buffer"})

_CAN_KEEP_NOTHING = ("torch.Tensor.__setitem__", "torch.Tensor.copy_", "torch.Tensor.fill_", "torch.Tensor.zero_")


class Holder(Struct, frozen=True, omit_defaults=True):
    """A node that keeps a storage in one of its slots."""

    node: int
    operation: str
    """torch's name of the node: ``MulBackward0``."""
    slot: str
    bytes: int
    """The bytes of the storage that the saved tensor covers."""
    kept_in: str = "slot"
    packed_by: str | None = None
    module: str | None = None
    file: str | None = None
    line: int | None = None


class StorageUse(Struct, frozen=True):
    """One storage, and everything that is known to keep it alive."""

    bytes: int
    kind: StorageKind
    device: str
    shape: tuple[int | str, ...]
    """Of the first tensor that is saved from it."""
    dtype: str
    names: tuple[str, ...]
    """Variables, parameters and buffers that hold it as well."""
    made_before: bool
    """Whether it existed before the forward."""
    seen_bytes: int
    """The bytes that the saved tensors cover together: far less than `bytes` if only a small view keeps it."""
    held_by: tuple[Holder, ...]

    @property
    def counts(self) -> bool:
        """True unless a module owns it."""
        return self.kind not in OWNED_BY_MODULES


class Unknown(Struct, frozen=True):
    """A saved tensor of unknown size."""

    node: int
    operation: str
    slot: str
    why: str
    module: str | None
    file: str | None
    line: int | None


class ChangedSince(NamedTuple):
    """A saved tensor that was changed in place afterwards."""

    operation: str
    slot: str
    saved_version: int
    version: int
    file: str | None
    line: int | None


@dataclass(frozen=True)
class GraphMemory:
    """The memory that one graph keeps."""

    storages: tuple[StorageUse, ...]
    """Those that nodes keep, the largest first."""
    in_variables: tuple[Storage, ...]
    """Those that the forward made and that only variables keep."""
    unknown: tuple[Unknown, ...]
    recomputed_bytes: int
    """The bytes that checkpointing freed, and that backward computes again."""
    freed_nodes: int
    """Nodes whose saved tensors an earlier backward has freed."""

    @property
    def saved_bytes(self) -> int:
        """The bytes of all storages, each once, without parameters and buffers."""
        return sum(use.bytes for use in self.storages if use.counts)

    def counted(self) -> list[StorageUse]:
        """The storages without parameters and buffers, ordered by the first node that keeps each."""
        return sorted((use for use in self.storages if use.counts), key=lambda use: use.held_by[0].node)

    @property
    def parameter_bytes(self) -> int:
        """The bytes of the parameters and buffers that nodes keep."""
        return sum(use.bytes for use in self.storages if not use.counts)

    @property
    def input_bytes(self) -> int:
        """The part of `saved_bytes` that the program held before the forward."""
        return sum(use.bytes for use in self.storages if use.kind == "input")


def memory_of(graph: Graph) -> GraphMemory:
    """Every storage of `graph` with its holders. Linear in the number of saved tensors."""
    holders: list[list[Holder]] = [[] for _ in graph.storages]
    facts: list[TensorFacts | None] = [None] * len(graph.storages)
    seen: list[dict[tuple[object, ...], int]] = [{} for _ in graph.storages]
    for node in graph.nodes:
        for saved in node.saved:
            if saved.storage is not None:
                holders[saved.storage].append(_holder(graph, node, saved))
                facts[saved.storage] = facts[saved.storage] or saved.tensor
                seen[saved.storage][_identity(node, saved)] = saved.bytes
    uses = [
        _use(storage, facts[index], holders[index], sum(seen[index].values()))
        for index, storage in enumerate(graph.storages)
        if holders[index]
    ]
    return GraphMemory(
        storages=tuple(sorted(uses, key=lambda use: -use.bytes)),
        in_variables=tuple(storage for index, storage in enumerate(graph.storages) if not holders[index]),
        unknown=tuple(_unknown(graph)),
        recomputed_bytes=sum(
            saved.bytes for node in graph.nodes for saved in node.saved if saved.state == "recomputed"
        ),
        freed_nodes=sum(any(saved.state == "freed" for saved in node.saved) for node in graph.nodes),
    )


def kept_bytes(graph: Graph, nodes: Iterable[int]) -> int:
    """The bytes that some nodes keep: every storage once, even if others keep it, without parameters and buffers."""
    kept = {saved.storage for node in nodes for saved in graph.nodes[node].saved if saved.storage is not None}
    storages = [graph.storages[index] for index in kept]
    return sum(storage.bytes for storage in storages if storage.kind not in OWNED_BY_MODULES)


def keeps_unknown(graph: Graph, nodes: Iterable[int]) -> bool:
    """Whether one of these nodes keeps a tensor of unknown size."""
    return any(saved.state == "unknown" for node in nodes for saved in graph.nodes[node].saved)


def changed_since(graph: Graph) -> Iterator[ChangedSince]:
    """Saved tensors that were changed after they had been saved, as far as torch reports it."""
    for node in graph.nodes:
        for saved in node.saved:
            if saved.is_changed and saved.saved_version is not None and saved.version is not None:
                versions = saved.saved_version, saved.version
                yield ChangedSince(node.name, saved.slot, *versions, *line_of(graph, node))


def _identity(node: Node, saved: SavedTensor) -> tuple[object, ...]:
    """A key that is equal for two slots with the same tensor, as far as known."""
    if saved.source is not None:
        return (saved.source, saved.source_nr)
    return (saved.tensor,) if saved.tensor is not None else (node.id, saved.slot)


def _holder(graph: Graph, node: Node, saved: SavedTensor) -> Holder:
    file, line = line_of(graph, node)
    return Holder(
        node.id,
        node.name,
        saved.slot,
        saved.bytes,
        saved.kept_in,
        saved.packed_by,
        graph.scopes[node.scope].path if node.scope is not None else None,
        file,
        line,
    )


def line_of(graph: Graph, node: Node) -> tuple[str | None, int | None]:
    """File and number of the innermost line outside torch that made the node."""
    if node.call_site is None:
        return None, None
    site = graph.call_sites[node.call_site]
    return site.file, site.line


def _use(storage: Storage, facts: TensorFacts | None, holders: list[Holder], seen: int) -> StorageUse:
    shape, dtype = (facts.shape, facts.dtype) if facts is not None else ((), "?")
    return StorageUse(
        storage.bytes,
        storage.kind,
        storage.device,
        shape,
        dtype,
        storage.names,
        storage.made_before,
        min(seen, storage.bytes),
        tuple(holders),
    )


def _unknown(graph: Graph) -> Iterator[Unknown]:
    for node in graph.nodes:
        scope = graph.scopes[node.scope].path if node.scope is not None else None
        for saved in node.saved:
            if saved.state == "unknown":
                by = f"packed by the hook {saved.packed_by}" if saved.packed_by else _nameless(saved)
                yield Unknown(node.id, node.name, saved.slot, by, scope, *line_of(graph, node))
        if node.name.endswith("CopySlices") and node.forward_call not in _CAN_KEEP_NOTHING:
            why = "torch does not show what an in-place operation on a part of a tensor saved"
            yield Unknown(node.id, node.name, "", why, scope, *line_of(graph, node))


def _nameless(saved: SavedTensor) -> str:
    is_plain = saved.tensor is None or saved.tensor.type_name == "Tensor"
    kind = "" if saved.tensor is None or is_plain else f" of the class {saved.tensor.type_name}"
    return f"a tensor{kind} whose memory torch does not show"
