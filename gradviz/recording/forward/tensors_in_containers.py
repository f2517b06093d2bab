"""Finds tensors inside what programs return: lists, dicts, dataclasses, `ModelOutput`s."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from itertools import islice
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import torch

MAX_ELEMENTS = 1_000
"""Longer containers are read only up to here: nobody names the millionth element of a list."""
MAX_DEPTH = 4
MAX_LOOKS = 10_000
"""The most values that are read in all, however they are nested."""
FEW_LOOKS = 200
"""The same at most calls of a long run: a buffer of a thousand transitions is not read again at each of them."""

HOLDS_NOTHING = frozenset(
    {int, float, bool, str, bytes, type(None), type, ModuleType, FunctionType, BuiltinFunctionType, MethodType}
)
"""The classes of most variables. No tensor is searched for in them."""


def named_tensors(
    value: Any, name: str, *, depth: int = MAX_DEPTH, max_looks: int = MAX_LOOKS
) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in `value`, named as the user would write it: ``out["loss"]``, ``pair[1]``, ``state.hidden``."""
    waiting = [(name, value, 0)]
    seen: set[int] = set()
    looked_at = 0
    while waiting and looked_at < max_looks:
        looked_at += 1
        path, current, level = waiting.pop()
        if issubclass(type(current), torch.Tensor):
            yield path, current
        elif holds_only_numbers(current):
            looked_at += min(len(current), MAX_ELEMENTS)
        elif type(current) not in HOLDS_NOTHING and level < depth and id(current) not in seen:
            # Each part takes at least one look: those that no look is left for need no name.
            parts = list(_parts(path, current, min(MAX_ELEMENTS, max_looks - looked_at)))
            if parts:
                seen.add(id(current))
                holders = [(part, inner, level + 1) for part, inner in parts if type(inner) not in HOLDS_NOTHING]
                looked_at += len(parts) - len(holders)
                waiting += reversed(holders)


def is_container(kind: type) -> bool:
    """Whether tensors are searched for in objects of this class."""
    return issubclass(kind, (dict, list, tuple)) or dataclasses.is_dataclass(kind)


def holds_only_numbers(value: Any) -> bool:
    """Whether nothing in a list, tuple or dict of Python itself, as far as it is read, can hold a tensor.

    Asked before anything else, because training scripts keep long lists of losses.
    """
    kind = type(value)
    if kind is not list and kind is not tuple and kind is not dict:
        return False
    elements = value.values() if kind is dict else value
    return HOLDS_NOTHING.issuperset(map(type, islice(elements, MAX_ELEMENTS)))


def tensors_in_call(args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> list[torch.Tensor]:
    """Tensors among the arguments of a torch call, also in one level of lists and tuples."""
    found: list[torch.Tensor] = []
    for value in args:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif type(value) in (list, tuple):
            found += [element for element in value if isinstance(element, torch.Tensor)]
    if kwargs:
        found += [value for value in kwargs.values() if isinstance(value, torch.Tensor)]
    return found


def stored_attributes(value: Any) -> dict[str, Any]:
    """The attributes in an object's ``__dict__``, without running code of its class; empty if it has none."""
    attributes = getattr(value, "__dict__", None)
    return attributes if type(attributes) is dict else {}


def closure_variables(function: Any) -> Iterator[tuple[str, Any]]:
    """The variables of a function's closure, as far as they are set."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    for name, cell in zip(names, getattr(function, "__closure__", None) or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue  # not set yet


def _parts(path: str, value: Any, most: int) -> Iterable[tuple[str, Any]]:
    """What a container holds, its first `most` elements, read without running code of its class."""
    kind = type(value)
    if issubclass(kind, dict):
        items = islice(dict.items(value), most)
        # A `ModelOutput` has its elements as attributes as well, and scripts use these.
        attributes = stored_attributes(value) if kind is not dict else {}
        return [
            (f"{path}.{key}" if attributes.get(key) is element else f"{path}[{key!r}]", element)
            for key, element in items
            if type(key) is str
        ]
    if issubclass(kind, (list, tuple)):
        fields = getattr(kind, "_fields", None)
        elements = islice((list if issubclass(kind, list) else tuple).__iter__(value), most)
        if type(fields) is tuple:
            return [(f"{path}.{field}", element) for field, element in zip(fields, elements, strict=False)]
        return [(f"{path}[{index}]", element) for index, element in enumerate(elements)]
    if dataclasses.is_dataclass(kind):
        return [(f"{path}.{name}", element) for name, element in _stored_fields(value)]
    return ()


def _stored_fields(value: Any) -> Iterator[tuple[str, Any]]:
    stored = stored_attributes(value)
    for field in dataclasses.fields(value):
        if field.name in stored:
            yield field.name, stored[field.name]
        elif isinstance(getattr(type(value), field.name, None), MemberDescriptorType):  # with __slots__
            yield field.name, getattr(value, field.name, None)
