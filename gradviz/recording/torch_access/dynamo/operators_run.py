"""Which operators of torch run, below autograd, while code computes something."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_ONLY_COMPUTE = frozenset({"aten", "prim", "prims", "quantized", "torchvision", "transformers"})
"""Namespaces of operators that only compute: they may run twice. Those of transformers replace `grouped_mm`."""


class OperatorsRun(TorchDispatchMode):
    """Notes them while it is entered."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.draws_random_numbers = False
        self.foreign: dict[str, None] = {}
        """Operators of other namespaces: what they do besides computing is unknown."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.draws_random_numbers = True
        if func.namespace not in _ONLY_COMPUTE:
            self.foreign[f"{func.namespace}::{func.overloadpacket.__name__}"] = None
        return func(*args, **(kwargs or {}))
