"""Which part of a parameter this rank has, and how the whole is shared out over a mesh of ranks.

A `DTensor` says so itself. What `FullyShardedDataParallel` shares out are flat parameters, made of several: they know
how much of each is on this rank.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import torch

from gradviz.capture.sharding import Sharding
from gradviz.recording.torch_access.distributed.sharded_parameters import is_gathered_at_times, local_part
from gradviz.recording.torch_access.name_lookup import is_loaded

_TENSORS = "torch.distributed.tensor"
_ORDINARY = torch.Tensor, torch.nn.Parameter


def sharding_of(tensor: Any) -> Sharding | None:
    """How a `DTensor` is shared out; None for all other tensors."""
    spec = spec_of(tensor)
    if spec is None:
        return None
    local, size = local_part(tensor), tensor.element_size()
    return Sharding(
        "fully_shard" if is_gathered_at_times(tensor) else "DTensor",
        tuple(local.shape),
        local.numel() * size,
        tuple(spec.shape),
        prod(spec.shape) * size,
        placements_words(spec.placements),
        tuple(spec.mesh.shape),
        tuple(spec.mesh.mesh_dim_names or ()),
    )


def spec_of(tensor: Any) -> Any:
    """torch's ``DTensorSpec`` of a distributed tensor; None for all others."""
    if type(tensor) in _ORDINARY or not is_loaded(_TENSORS):
        return None
    return tensor._spec if issubclass(type(tensor), sys.modules[_TENSORS].DTensor) else None


def placements_in(tensor: Any) -> tuple[str, ...]:
    """How a distributed tensor lies on its mesh; empty for all others."""
    spec = spec_of(tensor)
    return () if spec is None else placements_words(spec.placements)


def placements_words(placements: Iterable[Any]) -> tuple[str, ...]:
    """One for each dimension of the mesh, as torch prints it but shorter: ``Shard(dim=0)`` becomes ``Shard(0)``."""
    return tuple(repr(each).replace("dim=", "") for each in placements)


def moved_by(function: type, args: tuple[Any, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The placements before and after a call of one of torch's own functions that change them; empty where a tensor is
    no distributed one, and for all other functions."""
    if not function.__module__.startswith(_TENSORS) or not args:
        return (), ()
    match function.__name__, args:
        case ("Redistribute", (tensor, _, placements, *_)):
            return placements_in(tensor), placements_words(placements)
        case ("_FromTorchTensor", (_, _, placements, *_)):
            return (), placements_words(placements)
        case ("_ToTorchTensor", (tensor, *_)):
            return placements_in(tensor), ()
    return (), ()


class FlatPart(NamedTuple):
    """What `FullyShardedDataParallel` has made of a parameter."""

    sharding: Sharding
    flat: Any
    """The flat parameter that it is a part of; itself, if it is one."""


def flat_shards(modules: Iterable[Any]) -> Iterator[tuple[int, FlatPart]]:
    """The parameters that `FullyShardedDataParallel` shares out, original or flat, by ``id()``."""
    for module in modules:
        handle = flat_handle(module)
        if handle is not None:
            yield from _of_flat(handle)


def flat_handle(module: Any) -> Any:
    """What holds the flat parameter of a `FullyShardedDataParallel`; None for other modules, or if it has none."""
    fsdp = sys.modules.get("torch.distributed.fsdp.fully_sharded_data_parallel")
    return module._handle if fsdp is not None and isinstance(module, fsdp.FullyShardedDataParallel) else None


def flat_and_originals(module: Any) -> tuple[Any, Sequence[Any]] | None:
    """The flat parameter of a `FullyShardedDataParallel` that keeps the original ones, and these; None for others."""
    handle = flat_handle(module)
    return (
        None if handle is None or handle.flat_param._params is None else (handle.flat_param, handle.flat_param._params)
    )


def bytes_of_shard(flat: Any) -> int:
    """What this rank has of a flat parameter."""
    return int(flat._sharded_size.numel() * flat.element_size())


def number_made_of(flat: Any) -> int:
    """Of how many parameters a flat one is made."""
    return int(flat._num_params)


def is_of_shard(flat: Any, gradient: Any) -> bool:
    """Whether the gradient of a flat parameter was reduced; inside ``no_sync()`` it is the whole one of this rank."""
    return bool(gradient.shape == flat._sharded_size)


def _of_flat(handle: Any) -> Iterator[tuple[int, FlatPart]]:
    flat, by = handle.flat_param, "FullyShardedDataParallel"
    size, mesh = flat.element_size(), (handle.world_size,)
    whole = flat._unpadded_unsharded_size
    of_flat = Sharding(
        by, tuple(flat._sharded_size), flat._sharded_size.numel() * size, tuple(whole), whole.numel() * size, mesh=mesh
    )
    yield id(flat), FlatPart(of_flat, flat)
    for parameter, shape, part in zip(flat._params or (), flat._shapes, flat._shard_param_infos, strict=False):
        count = part.numel_in_shard or 0 if part.in_shard else 0
        sharding = Sharding(by, (count,), count * size, tuple(shape), prod(shape) * size, mesh=mesh)
        yield id(parameter), FlatPart(sharding, flat)
