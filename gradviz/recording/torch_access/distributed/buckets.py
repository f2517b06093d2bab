"""The buckets of `DistributedDataParallel`, each of which is sent as one, in order."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

MAX_BYTES = 2**30
"""torch makes zeros as large as the buckets when it is asked for them."""


class Bucket(NamedTuple):
    """One of them."""

    number: int
    parameters: tuple[int, ...]
    """The ``id()`` of each."""
    bytes: int
    hook: str
    """The communication hook through which it goes; empty for none."""


def buckets_of(modules: Iterable[Any]) -> Iterator[list[Bucket]]:
    """The buckets of each wrapper that exchanges gradients now, except of very large models."""
    distributed = sys.modules.get("torch.nn.parallel.distributed")
    for module in modules if distributed is not None else ():
        if not isinstance(module, distributed.DistributedDataParallel) or not module.require_backward_grad_sync:  # type: ignore[union-attr]
            continue
        if sum(each.nbytes for each in module.module.parameters() if each.requires_grad) <= MAX_BYTES:
            hook = "".join(getattr(hook, "__name__", "") for hook, _ in getattr(module, "_comm_hooks", ()))
            yield sorted(_bucket(each, hook) for each in module.reducer._get_zeros_like_grad_buckets())


def _bucket(found: Any, hook: str) -> Bucket:
    return Bucket(found.index(), tuple(map(id, found.parameters())), found.buffer().nbytes, hook)
