"""What an optimizer keeps for its parameters between steps, such as Adam's moving averages."""

from __future__ import annotations

from msgspec import Struct

from gradviz.graph.bounded_types import Count


class OptimizerState(Struct, frozen=True, omit_defaults=True):
    """One optimizer on one rank, after its last step that was looked at."""

    name: str
    """Its class."""
    bytes: Count
    """What this rank has."""
    whole_bytes: Count | None = None
    """What there is of it on all ranks, without copies; None where a rank knows only its own part."""
