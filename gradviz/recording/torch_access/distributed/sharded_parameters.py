"""Which wrapper makes ``.grad`` out of the gradients of several ranks, and which parameters it puts in place of others.

`DistributedDataParallel` replaces the ``.grad`` of a parameter by the mean over all ranks when the local gradients of a
bucket are there. `fully_shard` gathers a whole parameter for forward and backward, and writes the reduced gradient to
the sharded parameter, which is the module's own: the graph has the whole one, the optimizer the sharded one.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any

import torch

from gradviz.recording.torch_access.name_lookup import is_loaded
from gradviz.recording.torch_access.patches import Replacement

_MODULE = "torch.distributed.fsdp._fully_shard._fsdp_param"
_pairs: dict[int, tuple[weakref.ref[Any], weakref.ref[Any]]] = {}
"""Unsharded and sharded parameter, by the ``id()`` of the first."""
_sharded: dict[int, weakref.ref[Any]] = {}
"""The sharded ones, by their own ``id()``."""


def sharded_of(tensor: Any) -> Any:
    """The sharded parameter for which this whole one stands; None for all other tensors."""
    if not _pairs:
        return None
    whole, sharded = _pairs.get(id(tensor), (None, None))
    return sharded() if whole is not None and sharded is not None and whole() is tensor else None


def is_gathered_at_times(tensor: Any) -> bool:
    """Whether this is a sharded parameter for which a whole one has stood."""
    known = _sharded.get(id(tensor))
    return known is not None and known() is tensor


def own_parameter(tensor: Any) -> Any:
    """The parameter that the module and the optimizer have, where the graph has a gathered one."""
    sharded = sharded_of(tensor)
    return tensor if sharded is None else sharded


def local_part(tensor: Any) -> Any:
    """The part of a distributed tensor that this rank holds; any other tensor itself."""
    part = getattr(tensor, "_local_tensor", None) if type(tensor) is not torch.Tensor else None
    return tensor if part is None else part


class ShardingWatch:
    """Notes which whole parameters are gathered, from a `look` that finds `fully_shard` loaded to `stop`."""

    def __init__(self, release: Callable[[torch.Tensor], object]) -> None:
        """
        Args:
            release: Called with each whole parameter, to forget what is known about it: while it was made, nothing
                said yet which one it stands for.
        """
        self._release = release
        self._gathering = Replacement(f"{_MODULE}.FSDPParam.init_unsharded_param")
        self._is_over = False

    def look(self) -> None:
        """A module is about to run: its parameters are gathered after this, if it is sharded."""
        if not self._gathering.is_in_force and not self._is_over and is_loaded(_MODULE):
            self._gathering.put(self._noting)
            if self._is_over:  # another thread has stopped it since
                self._gathering.take_back()

    def stop(self) -> None:
        """Put everything back, for good: a module that another thread runs may still look. Safe to call twice."""
        self._is_over = True
        self._gathering.take_back()

    def _noting(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @wraps(original)
        def init_unsharded_param(parameter: Any) -> Any:
            result = original(parameter)
            whole, sharded = getattr(parameter, "_unsharded_param", None), getattr(parameter, "sharded_param", None)
            if whole is not None and sharded is not None and sharded_of(whole) is not sharded:
                _pairs[id(whole)] = weakref.ref(whole), weakref.ref(sharded)
                _sharded[id(sharded)] = _pairs[id(whole)][1]
                self._release(whole)
            return result

        return init_unsharded_param


def forget_sharded_parameters() -> None:
    """The recording was read: forget all pairs."""
    _pairs.clear()
    _sharded.clear()


def reducers_of(modules: Iterable[Any]) -> dict[int, str]:
    """The parameters whose ``.grad`` the next backward call makes out of the gradients of several ranks.

    By ``id()``, with the name of the wrapper that does so.
    """
    return {id(parameter): "DistributedDataParallel" for parameter in _reduced_parameters(modules)}


def parameters_with_reduced_gradient(modules: Iterable[Any]) -> set[int]:
    """The ``id()`` of each parameter whose ``.grad`` such a wrapper has made, after a backward call."""
    return {id(parameter) for parameter in _reduced_parameters(modules) if parameter.grad is not None}


def _reduced_parameters(modules: Iterable[Any]) -> Iterator[Any]:
    distributed = sys.modules.get("torch.nn.parallel.distributed")
    if distributed is None:
        return
    for module in modules:
        if isinstance(module, distributed.DistributedDataParallel) and module.require_backward_grad_sync:
            yield from (parameter for _, parameter in _synchronized(module) if parameter.requires_grad)


def is_replicating(module: Any) -> bool:
    """Whether it is a wrapper that keeps its parameters the same on all ranks."""
    distributed = sys.modules.get("torch.nn.parallel.distributed")
    return distributed is not None and isinstance(module, distributed.DistributedDataParallel)


def replicated_parameters(modules: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """The parameters that wrappers keep the same on all ranks, after every step, with their names in the wrapper."""
    distributed = sys.modules.get("torch.nn.parallel.distributed")
    for module in modules if distributed is not None else ():
        if isinstance(module, distributed.DistributedDataParallel) and not _averages_later(module):  # type: ignore[union-attr]
            yield from ((f"module.{name}", parameter) for name, parameter in _synchronized(module))


def _synchronized(wrapper: Any) -> Iterator[tuple[str, Any]]:
    ignored = getattr(wrapper, "parameters_to_ignore", ())
    return (each for each in wrapper.module.named_parameters() if each[0] not in ignored)


def _averages_later(wrapper: Any) -> bool:
    """Whether it lets replicas differ between averages of the parameters themselves, as post-local SGD does."""
    return any("PostLocalSGD" in type(state).__name__ for _, state in getattr(wrapper, "_comm_hooks", ()))


def is_joined(modules: Iterable[Any]) -> bool:
    """Whether a wrapper was used in torch's ``Join``, which answers for ranks whose data is shorter."""
    return any(getattr(getattr(module, "_join_config", None), "enable", False) is True for module in modules)


def is_flat_parameter(tensor: Any) -> bool:
    """Whether `FullyShardedDataParallel` made it out of several parameters, which the module still has."""
    flat = sys.modules.get("torch.distributed.fsdp._flat_param")
    return flat is not None and isinstance(tensor, flat.FlatParameter)
