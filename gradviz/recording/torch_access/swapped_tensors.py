"""Lets go of tensors whose contents the program is about to swap.

`torch.utils.swap_tensors` refuses tensors that anybody refers to weakly, whether by a reference of Python's or by one
of torch's own. Modules that are converted in place use it, and so does FSDP. To tell tensors apart the recorder needs
such references; it drops them when the function asks for them, which is the first that it does.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from gradviz.recording.torch_access.capabilities import works
from gradviz.recording.torch_access.patches import Replacement


class SwappedTensors:
    """Tells `let_go` of every tensor that is to be swapped, between `start` and `stop`."""

    def __init__(self, let_go: Callable[[torch.Tensor], None]) -> None:
        self._let_go = let_go
        self._replacement = Replacement("torch.utils.weakref")

    def start(self) -> None:
        """Begin to listen, where this torch can be listened to."""
        if works("swapped tensors"):
            self._replacement.put(lambda _: _Questions(self._let_go))

    def stop(self) -> None:
        """Put torch back; safe to call twice."""
        self._replacement.take_back()


class _Questions:
    """Stands for the module `weakref`."""

    def __init__(self, let_go: Callable[[torch.Tensor], None]) -> None:
        self._let_go = let_go

    def getweakrefs(self, tensor: torch.Tensor) -> list[Any]:
        self._let_go(tensor)
        return weakref.getweakrefs(tensor)

    def __getattr__(self, name: str) -> Any:
        return getattr(weakref, name)
