"""Drops references to tensors whose contents the program is about to swap.

`torch.utils.swap_tensors`, which FSDP and in-place conversions of modules use, refuses tensors with weak references,
Python's or torch's own. The recorder needs such references to identify tensors. It drops them when the function asks
for them, which is the first thing that it does.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from gradviz.recording.torch_access.capabilities import works
from gradviz.recording.torch_access.patches import Replacement


class SwappedTensors:
    """Calls `let_go` with every tensor that is about to be swapped, between `start` and `stop`."""

    def __init__(self, let_go: Callable[[torch.Tensor], None]) -> None:
        self._let_go = let_go
        self._replacement = Replacement("torch.utils.weakref")

    def start(self) -> None:
        """Begin to notice swaps, if this torch makes that possible."""
        if works("swapped tensors"):
            self._replacement.put(lambda _: _Questions(self._let_go))

    def stop(self) -> None:
        """Put torch back; safe to call twice."""
        self._replacement.take_back()


class _Questions:
    """Replaces the module `weakref` in `torch.utils`."""

    def __init__(self, let_go: Callable[[torch.Tensor], None]) -> None:
        self._let_go = let_go

    def getweakrefs(self, tensor: torch.Tensor) -> list[Any]:
        self._let_go(tensor)
        return weakref.getweakrefs(tensor)

    def __getattr__(self, name: str) -> Any:
        return getattr(weakref, name)
