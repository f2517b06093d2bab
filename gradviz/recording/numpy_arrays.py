"""Arrays that tensors were turned into, so that a tensor made from the same memory is known again."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from gradviz.recording.known_tensors import KnownTensor

_MOST_ARRAYS = 1_000


class NumpyArrays:
    """The newest arrays that are still there, by the memory that they lie in."""

    def __init__(self) -> None:
        self._arrays: dict[int, tuple[Any, int, KnownTensor]] = {}

    def note(self, array: Any, tensor: KnownTensor) -> None:
        """`array` is what ``tensor.numpy()`` gave."""
        interface = getattr(array, "__array_interface__", None)
        if type(interface) is not dict or not getattr(array, "nbytes", 0):
            return
        start = interface["data"][0]
        self._arrays.pop(start, None)
        self._arrays[start] = weakref.ref(array), start + array.nbytes, tensor
        if len(self._arrays) > _MOST_ARRAYS:
            del self._arrays[next(iter(self._arrays))]

    def origin_of(self, tensor: torch.Tensor) -> KnownTensor | None:
        """The tensor in whose array's memory this one lies."""
        if not self._arrays or tensor.device.type != "cpu" or tensor.layout is not torch.strided:
            return None
        try:
            address = tensor.data_ptr()
        except RuntimeError:
            return None
        for start, (array, end, origin) in reversed(self._arrays.items()):
            if start <= address < end and array() is not None:
                return origin
        return None
