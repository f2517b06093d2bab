"""Facts about tensors, read without touching their values, their version or their `__torch_function__`."""

from __future__ import annotations

from typing import Any

import torch

from gradviz.graph.model import TensorFacts
from gradviz.recording import torch_compat

UNREADABLE = TensorFacts(shape=("?",), dtype="?", device="?")
"""What stands in where a tensor subclass refuses to tell even its shape."""


class FactsTable:
    """Shares one `TensorFacts` between all tensors that are alike: a big model has few different shapes."""

    def __init__(self) -> None:
        self._by_content: dict[tuple[Any, ...], TensorFacts] = {}
        self.single: dict[tuple[Any, ...], tuple[TensorFacts]] = {}
        """The outputs of a node that has just one, by shape, dtype and device."""

    def new_single(self, key: tuple[Any, ...]) -> tuple[TensorFacts]:
        """Facts of an only output that is not yet in `single`."""
        outputs = self.single[key] = (self._by_content.get(key) or self._make(key),)
        return outputs

    def of_metadata(self, metadata: Any) -> TensorFacts:
        """Facts from one entry of a node's ``_input_metadata``."""
        key = (tuple(metadata.shape), metadata.dtype, metadata.device)
        return self._by_content.get(key) or self._make(key)

    def of_tensor(self, tensor: torch.Tensor) -> TensorFacts:
        """Facts of a tensor that Python holds. No mode or subclass of the user's sees the reading."""
        with torch_compat.DISABLE_TORCH_FUNCTION():
            key = (
                _sizes(tensor),
                tensor.dtype,
                tensor.device,
                _plain(tensor.layout),
                type(tensor).__name__ if type(tensor) is not torch.nn.Parameter else "Tensor",
            )
        return self._by_content.get(key) or self._make(key)

    def _make(self, key: tuple[Any, ...]) -> TensorFacts:
        shape, dtype, device, *rest = key
        sizes = tuple(size if type(size) is int else _whole_number_or_text(size) for size in shape)
        facts = TensorFacts(sizes, _plain(dtype), str(device), *rest)
        self._by_content[key] = facts
        return facts


def _sizes(tensor: torch.Tensor) -> tuple[int | str, ...]:
    if tensor.is_nested:
        # A nested tensor of the strided layout has no single shape; its number of parts is all it tells.
        return tuple(tensor.shape) if tensor.layout == torch.jagged else (tensor.size(0), "*")
    return tuple(tensor.shape)


def _whole_number_or_text(size: Any) -> int | str:
    text = str(size)
    return int(text) if text.isdecimal() else text


def _plain(torch_constant: object) -> str:
    return str(torch_constant).removeprefix("torch.")
