"""The elements of a tensor as what is computed from them needs them: readable, real, or their bits as integers."""

from __future__ import annotations

import torch

from gradviz.recording.torch_access.modes import is_transforming
from gradviz.recording.torch_access.tensors import has_storage

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def can_read_values(tensor: torch.Tensor) -> bool:
    """False if reading values would fail or disturb the program: no data, a transform, a CUDA graph."""
    if tensor.is_meta or is_transforming():
        return False
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def has_readable_elements(tensor: torch.Tensor) -> bool:
    """Whether it has elements that lie in a storage: not so for subclasses, sparse, nested and quantized tensors."""
    return (
        type(tensor) in _PLAIN
        and tensor.layout is torch.strided
        and not tensor.is_nested
        and not tensor.is_quantized
        and can_read_values(tensor)
        and has_storage(tensor)
        and tensor.numel() > 0
    )


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    """Complex numbers as pairs, and without the marks of a lazy `conj` or `neg`."""
    if tensor.is_complex():
        return torch.view_as_real(tensor.resolve_conj())
    return tensor.resolve_neg()


def bits_of(tensor: torch.Tensor) -> torch.Tensor:
    """The bits of a real tensor's elements as integers of the same width."""
    return tensor.view(_INTEGERS[tensor.element_size()])
