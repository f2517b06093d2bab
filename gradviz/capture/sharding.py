"""How a parameter is shared out over the ranks of a job."""

from __future__ import annotations

from msgspec import Struct

from gradviz.graph.bounded_types import Count, Size


class Sharding(Struct, frozen=True, omit_defaults=True):
    """What this rank has of a parameter, and what there is of it in the whole."""

    by: str
    """What shares it out: ``fully_shard``, ``FullyShardedDataParallel``, ``DTensor``."""
    shape: tuple[Size, ...]
    """Of the part on this rank."""
    bytes: Count
    """The same in bytes."""
    whole_shape: tuple[Size, ...]
    whole_bytes: Count
    placements: tuple[str, ...] = ()
    """One for each dimension of the mesh: ``Shard(0)``, ``Replicate()``."""
    mesh: tuple[Count, ...] = ()
    """The sizes of these dimensions."""
    mesh_names: tuple[str, ...] = ()


def placements_words(sharding: Sharding) -> str:
    """``Shard(0) over 2 ranks of tp``, for each dimension of the mesh; empty if unknown."""
    names = sharding.mesh_names or ("",) * len(sharding.mesh)
    told = [
        f"{placement} over {size:,} ranks{f' of {name}' if name else ''}"
        for placement, size, name in zip(sharding.placements, sharding.mesh, names, strict=False)
    ]
    return ", ".join(told)
