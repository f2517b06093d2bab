"""Reads facts about tensors, but not their values or version, and without calling `__torch_function__`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from msgspec.structs import replace

from gradviz.graph.model import TensorFacts
from gradviz.recording.torch_access.distributed.parameter_shards import placements_in
from gradviz.recording.torch_access.name_lookup import tensor_attribute
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION

UNREADABLE = TensorFacts(shape=("?",), dtype="?", device="?")
"""The facts about a tensor whose shape cannot be read without running code of the program."""


def is_unreadable(facts: TensorFacts) -> bool:
    """True for facts that contain only the class."""
    return facts.dtype == UNREADABLE.dtype


class FactsTable:
    """Shares one `TensorFacts` between all tensors that are alike: a big model has few different shapes."""

    def __init__(self) -> None:
        self._by_content: dict[tuple[Any, ...], TensorFacts] = {}
        self._by_plain: dict[tuple[Any, ...], TensorFacts] = {}
        """The same for tensors of torch's own class, by what is quickly read of them."""
        self.single: dict[tuple[Any, ...], tuple[TensorFacts]] = {}
        """The outputs of a node that has just one, by shape, dtype and device."""

    def new_single(self, key: tuple[Any, ...]) -> tuple[TensorFacts]:
        """Facts about a node's only output, if they are not yet in `single`."""
        shape, dtype, device = key
        plain = (_plain_sizes(shape), dtype, device)
        outputs = (self._by_content.get(plain) or self._make(plain),)
        if all(type(size) is int for size in shape):  # the size of a ragged dimension belongs to the program
            self.single[key] = outputs
        return outputs

    def of_metadata(self, metadata: Any) -> TensorFacts:
        """Facts from one entry of a node's ``_input_metadata``."""
        key = (_plain_sizes(metadata.shape), metadata.dtype, metadata.device)
        return self._by_content.get(key) or self._make(key)

    def of_tensor(self, tensor: torch.Tensor) -> TensorFacts:
        """Facts about a tensor that Python holds. This calls no mode or subclass of the user."""
        kind = type(tensor)
        if kind is torch.Tensor:
            with DISABLE_TORCH_FUNCTION():
                key = (
                    (_shape(tensor), _dtype(tensor), _device(tensor), _layout(tensor)) if not _is_nested(tensor) else ()
                )
            return self._by_plain.get(key) or self._of_plain(key, tensor)
        return self._of_any(kind, tensor)

    def _of_plain(self, key: tuple[Any, ...], tensor: torch.Tensor) -> TensorFacts:
        facts = self._of_any(torch.Tensor, tensor)
        if key:
            self._by_plain[key] = facts
        return facts

    def _of_any(self, kind: type, tensor: torch.Tensor) -> TensorFacts:
        type_name = "Tensor" if kind is torch.nn.Parameter else kind.__name__
        if answers_itself(kind):
            return replace(UNREADABLE, type_name=type_name)
        with DISABLE_TORCH_FUNCTION():
            try:
                layout, placements = _plain(_layout(tensor)), placements_in(tensor)
                key = (_sizes(tensor), _dtype(tensor), _device(tensor), layout, type_name, placements)
            except Exception:  # a subclass may compute its sizes, and fail in whatever way
                return replace(UNREADABLE, type_name=type_name)
        return self._by_content.get(key) or self._make(key)

    def _make(self, key: tuple[Any, ...]) -> TensorFacts:
        shape, dtype, device, *rest = key
        facts = TensorFacts(shape, _plain(dtype), str(device), *rest)
        self._by_content[key] = facts
        return facts


_shape, _dtype, _device, _layout, _is_nested = (
    tensor_attribute(name) for name in ("shape", "dtype", "device", "layout", "is_nested")
)


def answers_itself(kind: type) -> bool:
    """True for a user's class that may compute sizes in its ``__torch_dispatch__``, which torch would call."""
    dispatch = getattr(kind, "__torch_dispatch__", None)
    is_torchs_own = kind.__module__.partition(".")[0] == "torch"
    return not is_torchs_own and getattr(dispatch, "__func__", dispatch) is not _no_dispatch


_no_dispatch = getattr(torch.Tensor.__torch_dispatch__, "__func__", torch.Tensor.__torch_dispatch__)


def _sizes(tensor: torch.Tensor) -> tuple[int | str, ...]:
    if _is_nested(tensor) and _layout(tensor) != torch.jagged:
        # A nested tensor of the strided layout has no single shape; its number of parts is all it tells.
        return (torch.Tensor.size(tensor, 0), "*")
    return _plain_sizes(_shape(tensor))


def _plain_sizes(shape: Iterable[Any]) -> tuple[int | str, ...]:
    """Sizes as whole numbers, or as text if symbolic: those cannot be hashed, and comparing them sets guards."""
    return tuple(size if type(size) is int else _whole_number_or_text(size) for size in shape)


def _whole_number_or_text(size: Any) -> int | str:
    text = str(size)
    return int(text) if text.isdecimal() else text


def _plain(torch_constant: object) -> str:
    return str(torch_constant).removeprefix("torch.")
