"""Identifies tensors for the call log, without keeping any of them alive.

A tensor is identified by the address of its C++ object; one of torch's own weak references keeps that address from
being reused. Python's ids and weak references do not work: the Python object of a tensor may die and be made anew while
the tensor lives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch

from gradviz.graph.call_log import Holder, LeafEnd
from gradviz.graph.tensor_facts import TensorFacts
from gradviz.recording.forward.forward_memory import storage_of
from gradviz.recording.torch_access.distributed.sharded_parameters import sharded_of
from gradviz.recording.torch_access.tensor_facts import FactsTable, answers_itself
from gradviz.recording.torch_access.tensors import (
    ADDRESSES_STAY_TAKEN,
    address_of,
    is_leaf_of,
    may_be_asked,
    requires_grad_of,
    storage_address,
    weak_storage,
    weak_tensor,
)

_SWEEP_AFTER = 4_096
_GONE = object()
"""In place of a reference to a tensor that counted as the same, and is gone."""


class KnownStorage:
    """Memory that known tensors share."""

    __slots__ = ("computed", "is_uninitialized", "parameter", "source", "weak")

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.weak = weak_storage(storage)
        self.computed: KnownTensor | None = None
        """The newest tensor with a ``grad_fn`` in this memory."""
        self.parameter: KnownTensor | None = None
        """The first parameter in this memory."""
        self.source: KnownTensor | None = None
        """What was computed in this memory before: later tensors are views of the parameter."""
        self.is_uninitialized = False
        """True while nothing has been written to it: its values are arbitrary."""

    def likeness(self) -> KnownStorage:
        """Memory that only another run of the same code used."""
        made = object.__new__(KnownStorage)
        made.weak = made.computed = made.parameter = made.source = None
        made.is_uninitialized = False
        return made


class KnownTensor:
    """What the call log knows about a tensor."""

    __slots__ = (
        "address",
        "alive_after",
        "array_of",
        "before_steps",
        "class_names",
        "end",
        "facts",
        "first_row",
        "from_numpy_of",
        "gathered",
        "gradient_of",
        "has_equal_units",
        "hidden_in",
        "holder",
        "is_in_script",
        "is_lazy",
        "is_leaf",
        "is_moved",
        "is_used_elsewhere",
        "names",
        "producer",
        "requires_grad",
        "role",
        "status",
        "storage",
        "values_of_version",
        "weak",
    )

    def __init__(self, tensor: torch.Tensor, facts: TensorFacts, storage: KnownStorage | None) -> None:
        self.address: int | None = address_of(tensor)
        self.weak: Any = weak_tensor(tensor)
        self.facts = facts
        self.storage = storage
        self.requires_grad: bool = requires_grad_of(tensor)
        self.is_leaf = is_leaf(tensor, self.requires_grad)
        self.status = self.requires_grad, self.is_leaf
        """The same two flags, when the tensor was last seen."""
        is_parameter = issubclass(type(tensor), torch.nn.Parameter)
        self.role: Literal["parameter", "buffer", "tensor"] = "parameter" if is_parameter else "tensor"
        self.is_lazy: bool = torch.nn.parameter.is_lazy(tensor)
        """Whether a lazy module has not yet given it a shape and memory, so far as is known."""
        self.first_row: Any = None
        self.producer: Any = None
        self.gradient_of: KnownTensor | None = None
        self.from_numpy_of: KnownTensor | None = None
        self.array_of: KnownTensor | None = None
        self.values_of_version: int | None = -1
        self.names: dict[str, None] = {}
        self.class_names: dict[str, None] | None = {}
        """Those of the names that begin with the class of a module; None if a variable has led to it."""
        self.hidden_in: str | None = None
        """Path of the module that holds it where ``parameters()`` does not search."""
        self.is_used_elsewhere = False
        self.is_in_script = False
        self.end: LeafEnd | None = None
        self.before_steps: torch.Tensor | None = None
        """Checksum of its values before an optimizer stepped on it for the first time."""
        self.is_moved: bool | None = None
        """Whether a step has changed them."""
        self.has_equal_units = False
        """Whether all rows, or all columns, have been the same since."""
        self.alive_after: Any = None
        self.holder: Holder | None = None
        self.gathered: Any = None
        """Keeps the address of another tensor that counts as the same: of a sharded parameter, the whole one; of a
        derivative, what a transform had wrapped around it."""

    def likeness(self, storage: KnownStorage | None) -> KnownTensor:
        """A tensor that only another run of the same code made, in that memory."""
        made = object.__new__(KnownTensor)
        for slot in KnownTensor.__slots__:
            setattr(made, slot, getattr(self, slot))
        made.address = made.weak = made.first_row = made.producer = None
        made.storage, made.names, made.class_names = storage, {}, {}
        return made

    def name_from_class(self, names: Mapping[str, None]) -> None:
        """No variable leads to the module that it is in, so far as is known: its names begin with a class."""
        if self.class_names is not None:
            self.class_names = {**self.class_names, **names}
            self.names.update(names)

    def name_from_variable(self, names: Mapping[str, None]) -> None:
        """These names begin with a variable, which says more than a class."""
        for name in self.class_names or ():
            self.names.pop(name, None)
        self.class_names = None
        self.names.update(names)


class KnownTensors:
    """Every tensor that was seen and is alive."""

    def __init__(self, facts: FactsTable) -> None:
        self._facts = facts
        self._tensors: dict[int, KnownTensor] = {}
        self._storages: dict[int, KnownStorage] = {}
        self._sweep_at = _SWEEP_AFTER

    def find(self, tensor: torch.Tensor) -> KnownTensor | None:
        """What is known about the tensor; None if it is new."""
        known = self._tensors.get(address_of(tensor))
        if known is not None and not ADDRESSES_STAY_TAKEN and known.weak.expired():
            return None  # another tensor has its address now
        return known

    def add(self, tensor: torch.Tensor) -> KnownTensor:
        """Add a new tensor."""
        if len(self._tensors) >= self._sweep_at:
            self.forget_dead()
        sharded = sharded_of(tensor)
        if sharded is not None:
            known = self._tensors[address_of(tensor)] = self.known(sharded)
            known.gathered = weak_tensor(tensor)
            return known
        known = KnownTensor(tensor, self._facts.of_tensor(tensor), self.storage(tensor))
        _enter_memory(known)
        self._tensors[address_of(tensor)] = known
        return known

    def renew(self, known: KnownTensor, tensor: torch.Tensor) -> None:
        """A lazy tensor is used again: if its module has given it a shape and memory since, these are its own."""
        if torch.nn.parameter.is_lazy(tensor):
            return
        known.is_lazy = False
        known.facts, known.storage = self._facts.of_tensor(tensor), self.storage(tensor)
        known.values_of_version = -1
        _enter_memory(known)

    def join(self, tensor: torch.Tensor, inner: torch.Tensor) -> None:
        """Count a new tensor and the one inside it as the same: a transform returns only the inner one."""
        known = self.known(inner)
        if known.gathered is None:
            self._tensors[address_of(tensor)] = known
            known.gathered = weak_tensor(tensor)

    def known(self, tensor: torch.Tensor) -> KnownTensor:
        """What is known about the tensor, which is added if it is new."""
        return self.find(tensor) or self.add(tensor)

    def storage(self, tensor: torch.Tensor) -> KnownStorage | None:
        """The memory of a tensor; None if it has none of its own."""
        storage = None if answers_itself(type(tensor)) else storage_of(tensor)
        if storage is None:
            return None
        known = self._storages.get(storage_address(storage))
        if known is None:
            known = self._storages[storage_address(storage)] = KnownStorage(storage)
        return known

    def living(self) -> list[KnownTensor]:
        """Those that are still alive."""
        self.forget_dead()
        return list(self._tensors.values())

    def release(self, tensor: torch.Tensor) -> None:
        """Forget this tensor; if it is seen again, it is a new one."""
        known = self._tensors.pop(address_of(tensor), None)
        if known is not None:
            known.weak = known.address = None

    def release_all(self) -> None:
        """Forget all tensors and their memory."""
        for known in self._tensors.values():
            known.weak = known.address = None
        self._tensors.clear()
        self._storages.clear()

    def forget_dead(self) -> None:
        """Forget tensors and storages that are gone, and release their addresses."""
        for address, known in list(self._tensors.items()):
            # Even a weak reference to what a transform has wrapped around a tensor keeps that tensor.
            if address != known.address and known.gathered not in (None, _GONE) and known.gathered.expired():
                del self._tensors[address]
                known.gathered = _GONE
        for address, known in list(self._tensors.items()):
            if known.weak is None or known.weak.expired():
                del self._tensors[address]
                known.weak = known.address = None
        for address, storage in list(self._storages.items()):
            if storage.weak.expired():
                del self._storages[address]
        self._sweep_at = max(_SWEEP_AFTER, 2 * len(self._tensors))


def _enter_memory(known: KnownTensor) -> None:
    """Tell the memory of a tensor that it is there."""
    storage = known.storage
    if storage is not None and not known.is_leaf:
        storage.computed = known
    if storage is not None and known.role == "parameter" and storage.parameter is None:
        storage.parameter, storage.source = known, storage.computed


def is_leaf(tensor: torch.Tensor, requires_grad: bool) -> bool:
    """Whether torch calls it a leaf; not asked if torch might have to make a node to answer."""
    if not requires_grad:
        return True
    return may_be_asked(tensor) and bool(is_leaf_of(tensor))


def requires_grad(tensor: torch.Tensor) -> bool:
    """torch's own flag, whatever a subclass says."""
    return bool(requires_grad_of(tensor))
