"""Notes what memory was in use when the forward computation began: storages, and totals of the allocators.

The forward begins with the outermost call of a module that has something to train, or else with the first call that
makes a node; after each recorded backward the next forward is awaited. Storages are remembered by weak references,
which keep no data alive but prevent their addresses from being reused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

import torch

from gradviz.graph.saved_tensors import AllocatorReading, TorchObjects
from gradviz.recording.forward.module_tree import distinct_modules, parameters_inside
from gradviz.recording.forward.tensor_names import NameTable, names_on_stack
from gradviz.recording.forward.tensors_in_containers import FEW_LOOKS, MAX_LOOKS
from gradviz.recording.torch_access import allocators
from gradviz.recording.torch_access.modules import own_buffers, own_parameters
from gradviz.recording.torch_access.tensors import (
    DISABLE_TORCH_FUNCTION,
    requires_grad_of,
    storage_address,
    unwrapped,
    weak_storage,
)


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """The tensor's storage; None for tensors that have none, such as sparse ones."""
    try:
        return unwrapped(tensor).untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None


class ForwardMemory:
    """Waits for a forward computation once it is armed; `at_backward` then compares."""

    def __init__(self, *, with_totals: bool = True) -> None:
        self._with_totals = with_totals
        self.is_waiting = False
        self.has_begun = False
        self._before: dict[str, allocators.InUse] = {}
        self._candidate: dict[str, allocators.InUse] = {}
        self._after: dict[str, allocators.InUse] = {}
        self._known: dict[int, tuple[Any, int, str]] = {}
        self._modules_before = self._imported = 0
        self._max_looks = MAX_LOOKS
        self.reads_totals = with_totals
        """Whether the totals are read for the forward that is awaited now: only then calls before it are looked at."""

    def arm(self, *, is_brief: bool = False) -> None:
        """Wait for the next forward computation, and forget the one before.

        Args:
            is_brief: leave out the totals and most of what large containers hold; without totals, leave out all. For a
                total the C library walks all free blocks, which takes milliseconds once many are free.
        """
        self.is_waiting, self.has_begun = self._with_totals or not is_brief, False
        self._known, self._after = {}, {}
        self.reads_totals = self._with_totals and not is_brief
        self._max_looks = FEW_LOOKS if is_brief else MAX_LOOKS

    def forget(self) -> None:
        """Stop waiting, and hold nothing."""
        self.is_waiting = False
        self._known = {}

    def _read(self) -> dict[str, allocators.InUse]:
        return allocators.read() if self.reads_totals else {}

    def before_call(self, args: tuple[Any, ...]) -> None:
        """A torch call is about to run that may make the first nodes."""
        if torch.is_grad_enabled():
            with DISABLE_TORCH_FUNCTION():
                if any(_may_need_gradient(value) for value in args):
                    self._candidate = self._read()

    def after_first_nodes(self, frame: FrameType | None, args: tuple[Any, ...]) -> None:
        """That call made them, and no module was running: the forward began with it."""
        with DISABLE_TORCH_FUNCTION():
            self._begin(self._candidate or self._read(), frame, _tensors(args))

    def enter_module(self, frame: FrameType | None, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        """An outermost module call is about to run."""
        with DISABLE_TORCH_FUNCTION():
            if torch.is_grad_enabled() and any(parameter.requires_grad for parameter in parameters_inside(module)):
                self._begin(self._read(), frame, [*_tensors(args), *_of_module(module)])

    def at_backward(self) -> None:
        """Read the allocators again. Call this before anything of the graph is read."""
        if self.has_begun:
            self._after = self._read()
            self._imported = len(sys.modules) - self._modules_before
        self.is_waiting = False

    def storages_before(self) -> frozenset[int]:
        """Storages that existed when forward began and still exist, by the address of their C++ object."""
        return frozenset(key for key, (reference, _, _) in self._known.items() if not _is_gone(reference))

    def readings(self, objects: tuple[TorchObjects, ...] = ()) -> tuple[AllocatorReading, ...]:
        """One for each device whose allocator could be read both times; `objects` are in CPU memory."""
        freed: dict[str, int] = {}
        for reference, size, device in self._known.values():
            if _is_gone(reference):
                freed[device] = freed.get(device, 0) + size
        return tuple(
            AllocatorReading(
                device,
                now.allocator,
                self._before[device].bytes,
                now.bytes,
                freed.get(device, 0),
                now.block,
                self._imported if device == "cpu" else 0,
                objects if device == "cpu" else (),
            )
            for device, now in self._after.items()
            if device in self._before
        )

    def _begin(
        self, reading: dict[str, allocators.InUse], frame: FrameType | None, tensors: Iterable[torch.Tensor]
    ) -> None:
        self.is_waiting, self.has_begun = False, True
        self._modules_before = len(sys.modules)
        started = self._read()
        self._note_storages(names_on_stack(frame, NameTable(self._max_looks)), tensors)
        # Memory of these notes is not the program's.
        ours = {device: now.bytes - started[device].bytes for device, now in self._read().items()}
        self._before = {device: now._replace(bytes=now.bytes + ours[device]) for device, now in reading.items()}
        self._candidate = {}

    def _note_storages(self, names: NameTable, tensors: Iterable[torch.Tensor]) -> None:
        held = [tensor for tensor, _ in names.tensors.values()]
        of_modules = [tensor for module, _ in names.modules.values() for tensor in _of_module(module)]
        for tensor in (*held, *of_modules, *tensors):
            storage = storage_of(tensor)
            if storage is not None and storage_address(storage) not in self._known:
                self._known[storage_address(storage)] = (weak_storage(storage), storage.nbytes(), str(storage.device))


def _is_gone(reference: Any) -> bool:
    return bool(reference.expired())


def _of_module(root: torch.nn.Module) -> Iterable[torch.Tensor]:
    """Parameters, their gradients, and buffers."""
    for module in distinct_modules([root]):
        for tensor in (*own_parameters(module).values(), *own_buffers(module).values()):
            if tensor is not None:
                yield tensor
                if tensor.is_leaf and tensor.grad is not None:
                    yield tensor.grad


def _tensors(args: tuple[Any, ...]) -> list[torch.Tensor]:
    return [value for value in args if issubclass(type(value), torch.Tensor)]


def _may_need_gradient(value: Any) -> bool:
    if type(value) in (list, tuple):
        return any(_may_need_gradient(element) for element in value)
    return issubclass(type(value), torch.Tensor) and bool(_requires_grad(value))


_requires_grad = requires_grad_of
