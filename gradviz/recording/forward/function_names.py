"""Finds the public name of a torch function that was called: ``torch.nn.functional.linear``."""

from __future__ import annotations

from typing import Any


def public_name(function: Any) -> str:
    """The name as the user would write it; built-in functions only know their C++ module."""
    if isinstance(function, str):
        return function
    name = getattr(function, "__name__", type(function).__name__)
    if name in ("__get__", "__set__"):
        # Properties such as ``tensor.T`` and ``tensor.data = ...`` arrive as the wrapper of their getter or setter.
        return f"torch.Tensor.{getattr(getattr(function, '__self__', None), '__name__', name)}"
    if getattr(function, "__objclass__", None) is not None:
        return f"torch.Tensor.{name}"
    module = getattr(function, "__module__", None) or ""
    if module.startswith(("torch._C._nn", "torch.nn.functional")):
        return f"torch.nn.functional.{name}"
    if module == "torch._tensor":
        return f"torch.Tensor.{name}"
    owner = getattr(function, "__self__", None)
    for part in ("_linalg", "_fft", "_special", "_sparse", "_nested"):
        if module.endswith(part) or getattr(owner, "__name__", "").endswith(part):
            return f"torch.{part[1:]}.{name.lstrip('_').removeprefix(part[1:] + '_')}"
    if module.startswith("torch._ops."):
        # ``add.Tensor`` is one of the overloads of an operator, which is what a reader knows.
        return f"torch.ops.{module.removeprefix('torch._ops.')}.{name.partition('.')[0]}"
    if module.startswith(("torch._C", "torch.functional")) or not module:
        return f"torch.{name}"
    return f"{module}.{name}"
