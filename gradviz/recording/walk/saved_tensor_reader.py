"""Reads the saved tensors of every node of a walk, without unpacking them and without keeping them alive.

Only ``_raw_saved_*`` slots are read: ``_saved_*`` would run unpack hooks. A raw slot returns the very tensor that was
saved; for a node's own result a detached one on the same storage; or the result of a pack hook.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from msgspec.structs import replace

from gradviz.graph.saved_tensors import KeptIn, SavedTensor
from gradviz.graph.tensor_facts import TensorFacts
from gradviz.recording.forward.forward_values import ForwardValues
from gradviz.recording.torch_access.modes import DISABLE_DISPATCH_MODES
from gradviz.recording.torch_access.nodes import SHOWS_SLOTS, python_function_class, reading_slots, stored_in
from gradviz.recording.torch_access.tensor_facts import FactsTable
from gradviz.recording.torch_access.tensors import (
    DISABLE_TORCH_FUNCTION,
    may_be_asked,
    sparse_parts,
    unwrapped,
    version_of,
)
from gradviz.recording.walk.graph_walker import Walk
from gradviz.recording.walk.node_classes import NodeClass, SavedSlot, can_be_read
from gradviz.recording.walk.object_memory import ObjectCounter
from gradviz.recording.walk.storage_table import StorageTable
from gradviz.recording.walk.tensors_beside_slots import (
    CheckpointedTensors,
    holds_no_memory,
    packer_of,
    tensors_in_pack,
    tensors_of_hook,
    tensors_on_ctx,
)

_VERSIONS = re.compile(r"is at version (\d+); expected version (\d+)")
_PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)


class SavedTensorReader:
    """Reads the saved tensors of one walk; `unreadable` counts the slots that could not be read."""

    def __init__(
        self, walk: Walk, facts: FactsTable, unreadable: Counter[str], values: ForwardValues | None = None
    ) -> None:
        self.values: dict[tuple[int, str], int] = {}
        """By node and slot, numbers that `values` gave to small tensors which the graph shows nowhere else."""
        self.results: list[tuple[int, int, torch.Tensor]] = []
        """If values are wanted: results kept by their own nodes, after the index of the node and of the output. Some of
        them were never results of a torch call."""
        self._take_value = values.take if values is not None and values.up_to else None
        self.storages = StorageTable()
        self.objects = ObjectCounter()
        self._walk = walk
        self._facts = facts
        self._unreadable = unreadable
        self._checkpoints = CheckpointedTensors()

    def of_walk(self, classes: list[NodeClass]) -> list[tuple[SavedTensor, ...]]:
        """What each node keeps in its slots and on its ``ctx``."""
        return reading_slots(lambda: self._of_walk(classes))

    def _of_walk(self, classes: list[NodeClass]) -> list[tuple[SavedTensor, ...]]:
        found: list[tuple[SavedTensor, ...]] = []
        with DISABLE_TORCH_FUNCTION():
            for index, (wrapper, known) in enumerate(zip(self._walk.wrappers, classes, strict=True)):
                if not known.saved:
                    found.append(())
                    continue
                try:
                    found.append(self._of_node(index, wrapper, known))
                except Exception:  # the other nodes can still be read
                    self._unreadable["saved tensors"] += 1
                    found.append(())
        return found

    def of_hooks(self, hooks: Iterable[Any]) -> tuple[SavedTensor, ...]:
        """Tensors that hooks captured."""
        with DISABLE_TORCH_FUNCTION():
            captured = [named for hook in hooks for named in tensors_of_hook(hook)]
            return tuple(saved for name, tensor in captured for saved in self._of_tensor(name, tensor, "hook"))

    def _of_node(self, index: int, wrapper: Any, known: NodeClass) -> tuple[SavedTensor, ...]:
        if not can_be_read(known.kind):
            return (SavedTensor(known.saved[0].name, state="unknown"),)
        found: list[SavedTensor] = []
        for slot in known.saved:
            try:
                raw = stored_in(wrapper, slot.attribute)
            except RuntimeError as error:
                changed = _VERSIONS.search(str(error))
                if changed is None:
                    return (SavedTensor(slot.name, state="freed"),)
                # Only where it must be unpacked: the tensor is there, and nobody can see it.
                now, when_saved = int(changed[1]), int(changed[2])
                found.append(SavedTensor(slot.name, state="unknown", saved_version=when_saved, version=now))
                continue
            if type(raw) is tuple:
                for number, each in enumerate(raw):
                    if each is not None:
                        found += self._of_slot(index, wrapper, slot.numbered(number), each)
            elif raw is not None:
                found += self._of_slot(index, wrapper, slot, raw)
        # For Python functions the first read decides: it raises if they were freed.
        if not found and known.first_saved is not None and _is_freed(wrapper, known):
            return (SavedTensor(known.saved[0].name, state="freed"),)
        if known.kind in _PYTHON_KINDS:
            for name, tensor in tensors_on_ctx(wrapper):
                source = index if _is_own_result(wrapper, tensor) else None
                found += [replace(saved, source=source) for saved in self._of_tensor(name, tensor, "ctx")]
        return tuple(found)

    def _of_slot(self, index: int, wrapper: Any, slot: SavedSlot, raw: Any) -> Iterable[SavedTensor]:
        data = raw.data
        if raw.unpack_hook is not None:
            return self._packed(slot.name, raw.unpack_hook, data)
        if data is None:
            return ()
        if type(data) not in _PLAIN_TYPES or data.layout is not torch.strided or data.is_nested:
            return self._of_tensor(slot.name, data, "slot")
        # The usual case, written out: a strided tensor of torch's own class, saved as it is.
        key = (tuple(data.shape), data.dtype, data.device)
        (facts,) = self._facts.single.get(key) or self._facts.new_single(key)
        version = version_of(data)
        source, source_nr = None, 0
        if slot.result_nr is not None:
            source, source_nr = index, slot.result_nr
        elif not version and data.requires_grad:
            # With a version above 0, asking a view for its grad_fn may make a new node.
            source, source_nr = self._walk.position.get(data.grad_fn), data.output_nr
        saved_version = _version_when_saved(wrapper, slot, data) if version else version
        storage = self.storages.index_of(data)
        self.objects.add(data, storage)
        if self._take_value is not None and saved_version == version:
            self._note_value(index, slot, source, data)
        saved = SavedTensor(
            slot.name, facts, data.nbytes, storage, "slot", "held", None, source, source_nr, saved_version, version
        )
        return (saved,)

    def _note_value(self, index: int, slot: SavedSlot, source: int | None, tensor: torch.Tensor) -> None:
        if slot.result_nr is not None:
            self.results.append((index, slot.result_nr, tensor))
        elif source is None and not tensor.requires_grad:
            number = self._take_value(tensor) if self._take_value is not None else None
            if number is not None:
                self.values[index, slot.name] = number

    def _packed(self, name: str, hook: Any, packed: Any) -> Iterator[SavedTensor]:
        packer = packer_of(hook)
        if packer == "checkpoint":
            yield from self._checkpointed(name, hook, packed)
            return
        tensors = list(tensors_in_pack(packed))
        for index, tensor in enumerate(tensors):
            yield from self._of_tensor(name if not index else f"{name}[{index}]", tensor, "slot", packer)
        if not tensors:
            state = "held" if holds_no_memory(packed) else "unknown"
            yield SavedTensor(name, state=state, packed_by=packer)  # type: ignore[arg-type]

    def _checkpointed(self, name: str, hook: Any, holder: Any) -> Iterator[SavedTensor]:
        frame = self._checkpoints.frame_of(hook)
        if frame is None:
            yield SavedTensor(name, state="recomputed", packed_by="checkpoint")
            return
        if self._checkpoints.is_new(frame):
            for argument, tensor in self._checkpoints.inputs_of(frame):
                yield from self._of_tensor(argument, tensor, "checkpoint")
        noted = self._checkpoints.facts_of(frame, holder)
        facts = _facts_noted(noted)
        yield SavedTensor(
            name,
            facts,
            _bytes_noted(noted),
            state="recomputed",
            packed_by="checkpoint",
            saved_version=None,
            version=None,
        )

    def _of_tensor(
        self, name: str, tensor: torch.Tensor, kept_in: KeptIn, packed_by: str | None = None
    ) -> Iterator[SavedTensor]:
        """A tensor of any class; if it consists of others (sparse, wrapped), several saved tensors."""
        tensor = unwrapped(tensor)
        parts = _parts(tensor)
        if parts is None:
            facts = self._facts.of_tensor(tensor)
            try:
                index, size = self.storages.index_of(tensor), int(tensor.nbytes)
            except (NotImplementedError, RuntimeError):
                yield SavedTensor(name, facts, kept_in=kept_in, state="unknown", packed_by=packed_by)
                return
            version = version_of(tensor)
            saved_version = version if not version else None
            yield SavedTensor(
                name, facts, size, index, kept_in, packed_by=packed_by, saved_version=saved_version, version=version
            )
            return
        for part, inner in parts:
            yield from self._of_tensor(f"{name}.{part}", inner, kept_in, packed_by)
        if not parts:
            yield SavedTensor(
                name, self._facts.of_tensor(tensor), kept_in=kept_in, state="unknown", packed_by=packed_by
            )


_PYTHON_KINDS = frozenset({"custom", "checkpoint", "compiled"})


def _is_own_result(wrapper: Any, tensor: torch.Tensor) -> bool:
    """Whether a tensor on a custom function's ``ctx`` is its result: then the two keep each other alive.

    For a view that was changed, torch may have to make the ``grad_fn`` anew, so it is not asked for one.
    """
    if type(tensor) not in _PLAIN_TYPES or not tensor.requires_grad or not may_be_asked(tensor):
        return False
    return tensor.grad_fn is wrapper


def _is_freed(wrapper: Any, known: NodeClass) -> bool:
    """Distinguishes a freed node from one that saved no tensor: there is nothing here to unpack."""
    try:
        for slot in known.saved:
            getattr(wrapper, slot.unpacking_attribute)
    except RuntimeError:
        return True
    return False


def _version_when_saved(wrapper: Any, slot: SavedSlot, tensor: torch.Tensor) -> int | None:
    """The version that torch noted when saving, for a tensor that was written to and that no hook packed.

    Only torch's own check shows it, which returns the tensor if all is well, and with it all others of its list.
    Functions written in Python are not asked: some drop their tensors when they are read this way.
    """
    if not SHOWS_SLOTS:
        return version_of(tensor)  # it was unpacked, which compares the versions
    if python_function_class(wrapper) is not None:
        return None
    raw = getattr(wrapper, slot.attribute)
    together = [each for each in (raw if type(raw) is tuple else (raw,)) if each is not None]
    if not all(map(_may_be_checked, together)):
        return None
    try:
        getattr(wrapper, slot.unpacking_attribute)
    except RuntimeError as error:
        versions = _VERSIONS.search(str(error))
        # This is the first of a list whose version differs from the expected one: certain only if no other was written
        # to.
        is_this_one = sum(each.data is not None and bool(version_of(each.data)) for each in together) == 1
        return int(versions.group(2)) if versions and is_this_one else None
    return version_of(tensor)


def _may_be_checked(raw: Any) -> bool:
    """Whether torch's check of the version does nothing else: it could run an unpack hook, or make a node."""
    return raw.unpack_hook is None and (raw.data is None or may_be_asked(raw.data))


def _parts(tensor: torch.Tensor) -> list[tuple[str, torch.Tensor]] | None:
    """The tensors that one of a special class or layout consists of; None for an ordinary tensor.

    Attributes are read from where they are stored, because asking a subclass for its parts would run its code.
    """
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        stored = vars(tensor) if hasattr(tensor, "__dict__") else {}
        return [(name, value) for name, value in stored.items() if issubclass(type(value), torch.Tensor)]
    with torch.no_grad(), DISABLE_DISPATCH_MODES():
        return sparse_parts(tensor)


def _facts_noted(noted: dict[str, Any] | None) -> TensorFacts | None:
    """From what checkpointing notes of a tensor that it drops."""
    if noted is None or not {"shape", "dtype", "device"} <= noted.keys():
        return None
    shape = tuple(size if type(size) is int else str(size) for size in noted["shape"])
    return TensorFacts(shape, str(noted["dtype"]).removeprefix("torch."), str(noted["device"]))


def _bytes_noted(noted: dict[str, Any] | None) -> int:
    sizes = noted.get("shape", ()) if noted is not None else ()
    if noted is None or not all(type(size) is int for size in sizes):
        return 0
    return math.prod(sizes) * int(getattr(noted.get("dtype"), "itemsize", 0))
