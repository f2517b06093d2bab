"""What a rank exchanged with the others for groups of parameters: in a backward call, and in the forward before it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gradviz.graph.bounded_types import Count, Index, Magnitude

ExchangeKind = Literal["all_reduce", "all_gather", "reduce_scatter"]


class Exchange(Struct, frozen=True, omit_defaults=True):
    """One collective that a wrapper called: for a bucket of gradients, or for the parameters of a sharded module."""

    kind: ExchangeKind
    by: str
    """The wrapper: ``DistributedDataParallel``, ``fully_shard``."""
    leaves: tuple[Index, ...]
    """Ids of the nodes of its parameters, as far as they are in the graph."""
    parameters: Count
    """How many there are."""
    bytes: Count
    """What this rank gives to it, as far as that is known."""
    bucket: Count | None = None
    """The number of the bucket, in the order in which they are sent; None for parameters that have none."""
    hook: str = ""
    """The communication hook that the program put in place of the wrapper's own: it may send other bytes."""
    is_in_forward: bool = False
    after: Index | None = None
    """It begins when the node with this `NodeRun.order` has run; None if it begins before any has."""
    began: Magnitude | None = None
    """Seconds from the beginning of the backward call; None in forward."""
    sent: Count | None = None
    """Bytes that the communication hook sent in their place; None without one, and if nothing tells."""
    seconds: Magnitude | None = None
    """From when it begins until it is known to be over. Nothing tells when one of several buckets was over: their
    wrapper waits for all of them at the end of backward. None on a GPU, where nobody waits."""
    waited: Magnitude | None = None
    """Seconds of these for which the program did nothing but wait. For the buckets of a wrapper it is told once, at the
    last of them."""
