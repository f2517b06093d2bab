"""The buckets of `DistributedDataParallel`, each of which is sent as one, in order."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

MAX_BYTES = 2**30
"""torch makes zeros as large as the buckets when it is asked for them: those of larger models are left out."""


class Bucket(NamedTuple):
    """One of them."""

    number: int
    parameters: tuple[int, ...]
    """The ``id()`` of each."""
    bytes: int
    hook: str
    """The communication hook through which it goes; empty for none."""
    is_waited_for: bool
    """Whether backward ends only when all of them are there; on a GPU it does not."""


def exchanging_wrappers(modules: Iterable[Any]) -> Iterator[Any]:
    """The wrappers that exchange gradients now."""
    distributed = sys.modules.get("torch.nn.parallel.distributed")
    for module in modules if distributed is not None else ():
        if isinstance(module, distributed.DistributedDataParallel) and module.require_backward_grad_sync:  # type: ignore[union-attr]
            yield module


def bytes_of_gradients(wrapper: Any) -> int:
    """What the buckets of a wrapper hold together."""
    return sum(each.nbytes for each in wrapper.module.parameters() if each.requires_grad)


def buckets_of(wrapper: Any) -> list[Bucket]:
    """The buckets of a wrapper, in order."""
    hook = "".join(getattr(hook, "__name__", "") for hook, _ in getattr(wrapper, "_comm_hooks", ()))
    return sorted(_bucket(each, hook) for each in wrapper.reducer._get_zeros_like_grad_buckets())


def _bucket(found: Any, hook: str) -> Bucket:
    return Bucket(
        found.index(),
        tuple(map(id, found.parameters())),
        found.buffer().nbytes,
        hook,
        found.buffer().device.type == "cpu",
    )
