"""Tensors that Python code keeps for a node beside its slots: attributes of ``ctx``, variables that hooks captured."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from gradviz.recording.forward.hooks import hook_name
from gradviz.recording.forward.structures import closure_variables, named_tensors, stored_attributes


def tensors_on_ctx(wrapper: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors that a custom function put on its ``ctx`` by hand, past ``save_for_backward``."""
    for name, value in list(stored_attributes(wrapper).items()):
        yield from named_tensors(value, name)


def tensors_of_hook(hook: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors in a hook's closure, its bound arguments, or its object; named ``hook.variable``."""
    name = hook_name(hook)
    while isinstance(hook, partial):
        for place, value in enumerate(hook.args):
            yield from named_tensors(value, f"{name}[{place}]")
        for key, value in hook.keywords.items():
            yield from named_tensors(value, f"{name}.{key}")
        hook = hook.func
    owner = getattr(hook, "__self__", None)
    if owner is not None and not issubclass(type(owner), torch.nn.Module):
        for attribute, value in list(stored_attributes(owner).items()):
            yield from named_tensors(value, f"{name}.{attribute}")
    for variable, value in closure_variables(getattr(hook, "__func__", hook)):
        yield from named_tensors(value, f"{name}.{variable}")
