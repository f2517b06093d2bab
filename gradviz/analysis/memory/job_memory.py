"""The memory of all ranks of a job, and of the job: what each has of what is shared out, and what there is of it."""

from __future__ import annotations

from msgspec import Struct


class RankMemory(Struct, frozen=True):
    """One rank."""

    rank: int
    parameter_bytes: int
    """What it has of the parameters of its modules."""
    whole_parameter_bytes: int
    """What there is of these parameters on all ranks, without copies."""
    kept_bytes: int
    """What the largest of its graphs keeps until its backward has run, without parameters and buffers."""
    exchanged_bytes: int
    """What it gives to others for its parameters in a step."""
    optimizer_bytes: int | None = None
    """What its optimizers keep; None if none was seen to step."""
    whole_optimizer_bytes: int | None = None
    """What there is of it on all ranks, without copies; None if that is not known."""
    waited_seconds: float | None = None
    """How long it stood still for what is exchanged for parameters, in its last recorded step; None if unknown."""


class JobMemory(Struct, frozen=True):
    """All ranks that were recorded, and their sums."""

    world_size: int
    """How many ranks the job has; sums are of those that were recorded."""
    parameter_bytes: int
    kept_bytes: int
    exchanged_bytes: int
    optimizer_bytes: int | None
    ranks: tuple[RankMemory, ...]
