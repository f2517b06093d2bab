"""Brings tensors from accelerators to memory: all of one device in a single copy, since each makes the program wait.

Not run on an accelerator yet: the packing is tested in the processor's memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from ctypes import string_at

import torch


def in_memory(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The same tensors in the processor's memory; those that are there already are returned as they are.

    To be called without grad mode and modes. Waits for each device once.
    """
    found = list(tensors)
    places: dict[torch.device, list[int]] = {}
    for place, tensor in enumerate(tensors):
        if not tensor.is_cpu:
            places.setdefault(tensor.device, []).append(place)
    for of_device in places.values():
        together = [tensors[place] for place in of_device]
        for place, tensor in zip(of_device, unpacked(packed(together).cpu(), together), strict=True):
            found[place] = tensor
    return found


def packed(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """The bytes of tensors of one device, in a row. Large elements come first, so that each lies at a multiple of its
    size."""
    return torch.cat([tensors[place].contiguous().view(-1).view(torch.uint8) for place in _order(tensors)])


def unpacked(row: torch.Tensor, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Views of what `packed` made of tensors of these shapes and dtypes."""
    found: dict[int, torch.Tensor] = {}
    start = 0
    for place in _order(tensors):
        tensor = tensors[place]
        end = start + tensor.numel() * tensor.element_size()
        found[place] = row[start:end].view(tensor.dtype).view(tensor.shape)
        start = end
    return [found[place] for place in range(len(tensors))]


def _order(tensors: Sequence[torch.Tensor]) -> list[int]:
    return sorted(range(len(tensors)), key=lambda place: -tensors[place].element_size())


# -- Without NumPy, `tolist` is the only other way to many numbers, and takes 100 ns for each --------------------------


def bytes_of(tensor: torch.Tensor) -> bytes:
    """The elements of a tensor in the processor's memory, as they are stored."""
    tensor = tensor.contiguous()
    return string_at(tensor.data_ptr(), tensor.nbytes)


def numbers_in(tensor: torch.Tensor) -> list[float]:
    """The elements of a float64 tensor in the processor's memory, row by row."""
    numbers = array("d")
    numbers.frombytes(bytes_of(tensor))
    return numbers.tolist()
