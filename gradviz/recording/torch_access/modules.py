"""Reads what modules hold: parameters, buffers, submodules and hooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from gradviz.recording.torch_access.capabilities import works
from gradviz.recording.torch_access.name_lookup import attribute, find

_tells_contents = works("contents of modules")
_NO_HOOKS: Mapping[int, Any] = {}


def _table(path: str) -> Callable[[Any], Mapping[str, Any]]:
    """Reads that table of a module. Scripted and traced modules keep it in a wrapper, which is no mapping."""
    read = attribute(path)

    def table(module: Any) -> Mapping[str, Any]:
        found = read(module)
        return found if isinstance(found, dict) else dict(found.items())

    return table


own_parameters: Callable[[Any], Mapping[str, torch.nn.Parameter | None]] = (
    _table("Module._parameters")
    if _tells_contents
    else lambda module: dict(module.named_parameters(recurse=False, remove_duplicate=False))
)
"""The parameters that the module itself holds, by name."""

own_buffers: Callable[[Any], Mapping[str, torch.Tensor | None]] = (
    _table("Module._buffers")
    if _tells_contents
    else lambda module: dict(module.named_buffers(recurse=False, remove_duplicate=False))
)

own_modules: Callable[[Any], Mapping[str, torch.nn.Module | None]] = (
    _table("Module._modules") if _tells_contents else lambda module: dict(module.named_children())
)

backward_hooks: Callable[[Any], Mapping[int, Any]] = (
    attribute("Module._backward_hooks") if _tells_contents else lambda _: _NO_HOOKS
)
"""Full backward hooks of the module, by number."""

backward_pre_hooks: Callable[[Any], Mapping[int, Any]] = (
    attribute("Module._backward_pre_hooks") if _tells_contents else lambda _: _NO_HOOKS
)


WRAPPED = "_orig_mod"
"""The name of the module that `torch.compile` wraps, inside its wrapper."""


def is_compiled_wrapper(module: Any) -> bool:
    """Whether it is what `torch.compile` returned for a module."""
    return type(module).__name__ == "OptimizedModule" and type(module).__module__ == "torch._dynamo.eval_frame"


def compiled_from(module: Any) -> Any:
    """The module that `torch.compile` made this one from; None for others, or if this torch does not tell it."""
    return own_modules(module).get(WRAPPED) if is_compiled_wrapper(module) and works("compiled modules") else None


def class_name_of(module: Any) -> str:
    """The class that the program wrote: for what `torch.compile` returned, that of the module inside."""
    inner = compiled_from(module)
    return type(module if inner is None else inner).__name__


_HOOK_TABLES = (
    "_global_forward_pre_hooks",
    "_global_forward_hooks",
    "_global_forward_hooks_always_called",
    "_global_forward_hooks_with_kwargs",
    "_global_backward_pre_hooks",
    "_global_backward_hooks",
)


def global_hook_tables() -> list[dict[int, Any]]:
    """torch's tables of hooks on all modules, by hook id."""
    return [table for name in _HOOK_TABLES if (table := find(f"torch.nn.modules.module.{name}")) is not None]


FUSED_WITHOUT_MODES = tuple(
    getattr(torch.nn, name)
    for name in ("TransformerEncoder", "TransformerEncoderLayer", "MultiheadAttention")
    if hasattr(torch.nn, name)
)
"""Modules that run one fused kernel for inference, which gives other numbers, unless a function mode is active."""
