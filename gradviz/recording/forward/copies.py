"""Which unnamed tensors are copies of named ones, so that they can be said to be a part of them.

``tokens[:, 1:].reshape(-1)`` makes a copy, and the loss functions of language models pad the labels before they shift
them: ``pad(labels)[:, 1:]``. Such tensors share memory with no variable; the call that copied them is noted here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from gradviz.recording.forward.memory_parts import MemoryPart, memory_part_of, words_of_part
from gradviz.recording.torch_access.name_lookup import find

_Tensor = torch.Tensor

MAX_KEPT = 64
"""Copies that are remembered: a graph is read soon after its data was made."""

COPYING: dict[Any, str] = {
    **dict.fromkeys((_Tensor.contiguous, _Tensor.clone, torch.clone, _Tensor.to, _Tensor.cpu, _Tensor.cuda), "{}"),
    **dict.fromkeys((_Tensor.reshape, torch.reshape, _Tensor.flatten, torch.flatten), "{}"),
    **dict.fromkeys((_Tensor.long, _Tensor.int), "{}"),
    **{getattr(_Tensor, name): f"{{}}.{name}()" for name in ("float", "double", "half", "bfloat16", "bool")},
    functional.pad: "pad({})",
    find("torch._C._nn.pad"): "pad({})",  # what Dynamo makes of it
    **dict.fromkeys((_Tensor.roll, torch.roll), "roll({})"),
    **dict.fromkeys((_Tensor.flip, torch.flip), "flip({})"),
}
"""Functions that copy their first argument, and what the copy of ``{}`` is called."""


class _Copy(NamedTuple):
    words: str
    copied: MemoryPart
    source: MemoryPart


class Copies:
    """The newest copies of tensors that require no gradient.

    Args:
        part_of: tells where a tensor lies in its memory.
    """

    def __init__(self, part_of: Callable[[torch.Tensor], MemoryPart | None] = memory_part_of) -> None:
        self._part_of = part_of
        self._by_address: dict[int, _Copy] = {}

    def note(self, function: Any, args: tuple[Any, ...], result: Any) -> None:
        """A function in `COPYING` was called."""
        source = args[0] if args else None
        if not isinstance(source, torch.Tensor) or not isinstance(result, torch.Tensor) or source.requires_grad:
            return
        before, after = self._part_of(source), self._part_of(result)
        if before is None or after is None or before.address == after.address:
            return
        self._by_address.pop(after.address, None)
        self._by_address[after.address] = _Copy(COPYING[function], after, before)
        if len(self._by_address) > MAX_KEPT:
            del self._by_address[next(iter(self._by_address))]

    def words_of(self, part: MemoryPart, name_of: Callable[[MemoryPart], str | None]) -> str | None:
        """What a part of memory was copied from, as Python writes it; None if that is not known.

        Args:
            name_of: what a part of memory is called that a variable holds.
        """
        copies: list[tuple[_Copy, MemoryPart]] = []
        name = None
        while name is None:
            copy = self._by_address.get(part.address)
            if copy is None or len(copies) > MAX_KEPT:
                return None
            copies.append((copy, part))
            part = copy.source
            name = name_of(part)
        for copy, taken in reversed(copies):
            name = words_of_part(copy.words.format(name), taken, copy.copied)
        return name

    def forget(self) -> None:
        """Hold nothing any longer."""
        self._by_address.clear()
