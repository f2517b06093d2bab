"""Names the user's hooks on tensors, and finds those that are still registered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gradviz.recording.torch_access.tensors import hook_table_of, hooks_before_accumulation, post_accumulate_hooks


def hook_name(hook: Any) -> str:
    """A readable name for a hook: the qualified name of its function, or its class."""
    name = getattr(hook, "__qualname__", None)
    return str(name) if name else type(hook).__qualname__


def _table_of(handle: Any) -> Any:
    """The table in which a handle's hook was registered; None if it is gone or not known."""
    return hook_table_of(handle)


def hooks_still_on(hooks: Sequence[tuple[str, Any]]) -> tuple[str, ...]:
    """Names of the hooks that have not been removed: a handle knows the table of its hook."""
    still_on = []
    for name, handle in hooks:
        table = _table_of(handle)
        if table is None or handle.id in table:
            still_on.append(name)
    return tuple(still_on)


def hooks_behind(hooks: Sequence[tuple[str, Any]]) -> list[Any]:
    """The hooks that have not been removed."""
    tables = ((_table_of(handle), handle) for _, handle in hooks)
    return [table[handle.id] for table, handle in tables if table is not None and handle.id in table]


def hooks_on(tensor: torch.Tensor) -> list[Any]:
    """The hooks of a leaf, before and after its gradient is accumulated."""
    return [*hooks_before_accumulation(tensor).values(), *post_accumulate_hooks(tensor).values()]


def names_of_hooks(tensor: torch.Tensor) -> tuple[str, ...]:
    """Their names."""
    return tuple(hook_name(hook) for hook in hooks_on(tensor))
