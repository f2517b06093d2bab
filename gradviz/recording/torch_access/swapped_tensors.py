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

from gradviz.recording.torch_access import patches


class SwappedTensors:
    """Tells `let_go` of every tensor that is to be swapped, between `start` and `stop`."""

    def __init__(self, let_go: Callable[[torch.Tensor], None]) -> None:
        self._let_go = let_go
        self._probe = patches.swap_probe()
        self._original: Any = None

    def start(self) -> None:
        """Begin to listen, where this torch can be listened to."""
        if self._probe is not None:
            module, name = self._probe
            self._original = getattr(module, name)
            setattr(module, name, _Questions(self._let_go))

    def stop(self) -> None:
        """Put torch back; safe to call twice."""
        if self._probe is not None and self._original is not None:
            module, name = self._probe
            setattr(module, name, self._original)
            self._original = None


class _Questions:
    """Stands for the module `weakref`."""

    def __init__(self, let_go: Callable[[torch.Tensor], None]) -> None:
        self._let_go = let_go

    def getweakrefs(self, tensor: torch.Tensor) -> list[Any]:
        self._let_go(tensor)
        return weakref.getweakrefs(tensor)

    def __getattr__(self, name: str) -> Any:
        return getattr(weakref, name)
