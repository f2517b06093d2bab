"""Finds which tensors share their memory: storages in the order in which they were first seen.

A storage is identified by the address of its C++ object, which cannot be reused while something keeps it, as the graph
does. The address of the *data* is never read: reading it copies a storage that torch copies lazily.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch

from gradviz.graph.saved_tensors import Storage, StorageKind
from gradviz.recording.forward.forward_memory import ForwardMemory, storage_of
from gradviz.recording.forward.module_tree import distinct_modules
from gradviz.recording.forward.tensor_names import ModuleNames
from gradviz.recording.torch_access.modules import own_buffers, own_parameters
from gradviz.recording.torch_access.tensors import may_be_asked, storage_address


@dataclass(slots=True)
class _Entry:
    """Small: a long chain of operations has one for each."""

    bytes: int
    device: str
    kind: StorageKind | None = None
    names: tuple[str, ...] = ()


class StorageTable:
    """The storages of one graph, while it is built."""

    def __init__(self) -> None:
        self._indices: dict[int, int] = {}
        self._entries: list[_Entry] = []

    def index_of(self, tensor: torch.Tensor) -> int:
        """Index of the tensor's storage. Raises `NotImplementedError` for tensors without one (sparse, opaque)."""
        storage = tensor.untyped_storage()
        index = self._indices.get(storage_address(storage))
        if index is None:
            index = self._indices[storage_address(storage)] = len(self._entries)
            kind: StorageKind | None = "parameter" if issubclass(type(tensor), torch.nn.Parameter) else None
            self._entries.append(_Entry(storage.nbytes(), str(storage.device), kind))
        return index

    def storages(self, modules: ModuleNames, called: Iterable[torch.nn.Module], memory: ForwardMemory) -> list[Storage]:
        """All storages, with what holds them; then those that only variables hold, made since the forward began."""
        for tensor, kind, names in _owned_by_modules(modules, called):
            self._note(tensor, kind, names)
        known = memory.storages_before()
        for tensor, _ in modules.variables.tensors.values():
            storage = storage_of(tensor)
            if storage is not None and memory.has_begun and storage_address(storage) not in known:
                self.index_of(tensor)
            self._note(tensor, _kind_of_variable(tensor, memory), modules.names_of(tensor))
        return [self._storage(key, index, known) for key, index in self._indices.items()]

    def _note(self, tensor: torch.Tensor, kind: StorageKind | None, names: Iterable[str]) -> None:
        storage = storage_of(tensor)
        index = None if storage is None else self._indices.get(storage_address(storage))
        if index is not None:
            entry = self._entries[index]
            entry.kind = entry.kind or kind
            entry.names = tuple(dict.fromkeys((*entry.names, *names)))

    def _storage(self, key: int, index: int, known: frozenset[int]) -> Storage:
        entry = self._entries[index]
        is_old = key in known
        kind = entry.kind or ("input" if is_old else "intermediate")
        return Storage(entry.bytes, entry.device, kind, entry.names, is_old or kind in ("parameter", "buffer"))


def _kind_of_variable(tensor: torch.Tensor, memory: ForwardMemory) -> StorageKind | None:
    """The kind of a storage that a variable holds; None if only the time of its creation decides."""
    if issubclass(type(tensor), torch.nn.Parameter):
        return "parameter"
    return "input" if _is_leaf(tensor) and (tensor.requires_grad or not memory.has_begun) else None


def _is_leaf(tensor: torch.Tensor) -> bool:
    return not tensor.requires_grad or (may_be_asked(tensor) and tensor.is_leaf)


def _owned_by_modules(
    modules: ModuleNames, called: Iterable[torch.nn.Module]
) -> Iterator[tuple[torch.Tensor, StorageKind, list[str]]]:
    for module in distinct_modules((*called, *(module for module, _ in modules.variables.modules.values()))):
        for parameter in own_parameters(module).values():
            if parameter is not None:
                yield parameter, "parameter", modules.parameters.get(id(parameter), [])
        for buffer in own_buffers(module).values():
            if buffer is not None:
                yield buffer, "buffer", modules.buffers.get(id(buffer), [])
