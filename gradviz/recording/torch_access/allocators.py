"""Reads how much memory is allocated on each device, to compare it with the size of saved tensors.

For CUDA, torch's own allocator reports it. For the CPU, the C library does: its ``mallinfo2`` counts everything
that was requested: tensors, but also torch's own objects and long Python strings.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import torch

from gradviz.recording.torch_access.modes import DISABLE_DISPATCH_MODES
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION

CUDA_BLOCK = 512
"""CUDA's caching allocator gives out multiples of this many bytes."""


class InUse(NamedTuple):
    """The memory that one allocator has given out and not got back."""

    allocator: str
    bytes: int
    block: int = 1


def read() -> dict[str, InUse]:
    """The memory in use by device, for allocators that report it. Initializes no device."""
    found = {}
    malloc = bytes_from_malloc()
    if malloc is not None:
        found["cpu"] = InUse("malloc", malloc())
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        for index in range(torch.cuda.device_count()):
            used = torch.cuda.memory_allocated(index)
            found[f"cuda:{index}"] = InUse("torch.cuda.memory_allocated", used, CUDA_BLOCK)
    return found


class _MallocInfo(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


@lru_cache(maxsize=1)
def bytes_from_malloc() -> Callable[[], int] | None:
    """Reads the bytes allocated by the C library; None if they cannot be read, or another allocator is used."""
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError, TypeError):
        return None
    mallinfo.restype = _MallocInfo

    def in_use() -> int:
        info = mallinfo()
        return int(info.uordblks) + int(info.hblkhd)

    before = in_use()
    with DISABLE_TORCH_FUNCTION(), DISABLE_DISPATCH_MODES():
        probe = torch.empty(_PROBE_BYTES, dtype=torch.uint8, device="cpu")
    is_counted = in_use() - before >= _PROBE_BYTES
    del probe
    return in_use if is_counted else None


_PROBE_BYTES = 1 << 20
