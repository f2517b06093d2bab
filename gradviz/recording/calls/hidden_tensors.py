"""Trainable tensors that a module holds where ``parameters()`` does not look: in plain lists, dicts and attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from gradviz.recording.forward.module_tree import modules_inside
from gradviz.recording.forward.structures import MAX_DEPTH, MAX_ELEMENTS
from gradviz.recording.torch_access.modules import own_parameters

_OWN_ATTRIBUTES = frozenset(torch.nn.Module().__dict__)


def hidden_tensors(module: torch.nn.Module, path: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Leaves that require grad, in the module's attributes or in modules there, named as the user would write them.

    Read past whatever the module's class computes: looking must not run the user's code.
    """
    for attribute, value in list(vars(module).items()):
        if attribute not in _OWN_ATTRIBUTES:
            yield from _tensors_in(value, f"{path}.{attribute}")


def _tensors_in(value: Any, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    waiting = [(name, value, 0)]
    seen: set[int] = set()
    while waiting and len(seen) < MAX_ELEMENTS:
        place, each, depth = waiting.pop()
        kind = type(each)
        if id(each) in seen:
            continue
        if issubclass(kind, torch.Tensor):
            seen.add(id(each))
            yield place, each
        elif issubclass(kind, torch.nn.Module):
            seen.add(id(each))
            for path, inner in modules_inside(each, place):
                yield from (
                    (f"{path}.{own}", tensor) for own, tensor in own_parameters(inner).items() if tensor is not None
                )
        elif kind in (list, tuple, dict) and depth < MAX_DEPTH:
            seen.add(id(each))
            pairs = list(each.items() if kind is dict else enumerate(each))[:MAX_ELEMENTS]
            waiting.extend((f"{place}[{key!r}]", inner, depth + 1) for key, inner in reversed(pairs))
