"""Tensors that Python code keeps for a node beside its slots: attributes of ``ctx``, variables that hooks captured."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from gradviz.recording.hooks import hook_name
from gradviz.recording.structures import named_tensors


def tensors_on_ctx(wrapper: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors that a custom function put on its ``ctx`` by hand, past ``save_for_backward``."""
    attributes = getattr(wrapper, "__dict__", None)
    for name, value in list(attributes.items()) if type(attributes) is dict else ():
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
        yield from _attributes_of(owner, name)
    function = getattr(hook, "__func__", hook)
    variables = getattr(getattr(function, "__code__", None), "co_freevars", ())
    for variable, cell in zip(variables, getattr(function, "__closure__", None) or (), strict=False):
        try:
            content = cell.cell_contents
        except ValueError:
            continue  # a variable that is not set yet
        yield from named_tensors(content, f"{name}.{variable}")


def _attributes_of(owner: Any, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    attributes = getattr(owner, "__dict__", None)
    for attribute, value in list(attributes.items()) if type(attributes) is dict else ():
        yield from named_tensors(value, f"{name}.{attribute}")
