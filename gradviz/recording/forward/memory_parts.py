"""Which part of a memory a tensor is, so that an unnamed tensor can be said to be a part of a named one.

``tokens[:, :-1]`` and ``fake.detach()`` are tensors of their own, which no variable holds; their memory is that of
``tokens`` and ``fake``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import torch

from gradviz.recording.torch_access.capabilities import works
from gradviz.recording.torch_access.modes import is_transforming
from gradviz.recording.torch_access.tensors import storage_address, weak_storage


class MemoryPart(NamedTuple):
    """Where a tensor lies in its storage. The storage itself is not kept alive, but its address stays reserved."""

    storage: Any
    address: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


def memory_part_of(tensor: torch.Tensor) -> MemoryPart | None:
    """The part of a plain tensor; None for others, whose elements need not lie in one storage."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided:
        return None
    # The address of data is used again when it is freed: another tensor would be taken for the same memory.
    if is_transforming() or not works("identity of storages"):
        return None
    storage = tensor.untyped_storage()
    shape, offset = tuple(tensor.shape), int(tensor.storage_offset())
    return MemoryPart(weak_storage(storage), storage_address(storage), shape, tensor.stride(), offset)


def index_words(part: MemoryPart, whole: MemoryPart) -> str | None:
    """How Python writes `part` as an index of `whole`: ``[:, :-1]``; empty if both are the same elements.

    None if it is not a basic index: a transposed part, for example.
    """
    starts = _starts(part.offset - whole.offset, whole)
    found = None if starts is None else _indices(part, whole, starts, 0, 0)
    if found is None:
        return "" if prod(part.shape) >= prod(whole.shape) else None
    while found and found[-1] == ":":
        found.pop()
    return f"[{', '.join(found)}]" if found else ""


def words_of_part(name: str, part: MemoryPart, whole: MemoryPart) -> str:
    """A part of a named tensor, as Python writes it where that can be told."""
    index = index_words(part, whole)
    return f"part of {name}" if index is None else f"{name}{index}"


def _starts(offset: int, whole: MemoryPart) -> list[int] | None:
    """The index in each dimension of `whole` at which its element number `offset` lies."""
    starts = [0] * len(whole.shape)
    for dim in sorted(range(len(starts)), key=lambda dim: -whole.stride[dim]):
        if whole.stride[dim] > 0 <= offset:
            starts[dim] = min(offset // whole.stride[dim], max(whole.shape[dim] - 1, 0))
            offset -= starts[dim] * whole.stride[dim]
    return starts if offset == 0 else None


def _indices(part: MemoryPart, whole: MemoryPart, starts: Sequence[int], dim: int, own: int) -> list[str] | None:
    """One index for each dimension of `whole` from `dim` on; the dimensions of `part` from `own` on are left."""
    if dim == len(whole.shape):
        return [] if own == len(part.shape) else None
    if own < len(part.shape):
        slice_words = _slice_words(part.shape[own], part.stride[own], whole.shape[dim], whole.stride[dim], starts[dim])
        rest = _indices(part, whole, starts, dim + 1, own + 1) if slice_words is not None else None
        if rest is not None:
            return [slice_words or ":", *rest]
    rest = _indices(part, whole, starts, dim + 1, own) if len(whole.shape) - dim > len(part.shape) - own else None
    last = whole.shape[dim] - 1
    return None if rest is None else ["-1" if starts[dim] == last > 0 else str(starts[dim]), *rest]


def _slice_words(size: int, stride: int, whole_size: int, whole_stride: int, start: int) -> str | None:
    """``1:``, ``:-1``, ``::2``; None if the elements are not a slice."""
    step = 1 if size <= 1 else stride // whole_stride if whole_stride else 1
    stop = start + step * (size - 1) + 1
    if step < 1 or (size > 1 and step * whole_stride != stride) or stop > whole_size:
        return None
    first = str(start) if start else ""
    reaches_end = stop + step > whole_size
    last = "" if reaches_end else "-1" if stop == whole_size - 1 and not start else str(stop)
    return f"{first}:{last}" + (f":{step}" if step > 1 else "")
