"""Finding tensors inside what programs really return: lists, dicts, dataclasses, `ModelOutput`s."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import MemberDescriptorType
from typing import Any

import torch

from gradviz.errors import BadInput, near_matches

MAX_ELEMENTS = 1_000
"""Longer containers are only looked at this far: nobody names the millionth element of a list."""
MAX_DEPTH = 4


def named_tensors(value: Any, name: str, *, depth: int = MAX_DEPTH) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in `value`, named as the user would write it: ``out["loss"]``, ``pair[1]``, ``state.hidden``."""
    waiting = [(name, value, 0)]
    seen: set[int] = set()
    while waiting:
        path, current, level = waiting.pop()
        if issubclass(type(current), torch.Tensor):
            yield path, current
        elif level < depth and id(current) not in seen:
            parts = list(_parts(path, current))
            if parts:
                seen.add(id(current))
                waiting.extend((part, inner, level + 1) for part, inner in reversed(parts))


def _parts(path: str, value: Any) -> Iterable[tuple[str, Any]]:
    """What a container holds, read past whatever its class computes: looking must not run the user's code."""
    kind = type(value)
    if issubclass(kind, dict):
        items = islice(dict.items(value), MAX_ELEMENTS)
        return [(f"{path}[{key!r}]", element) for key, element in items if type(key) is str]
    if issubclass(kind, (list, tuple)):
        fields = getattr(kind, "_fields", None)
        elements = islice((list if issubclass(kind, list) else tuple).__iter__(value), MAX_ELEMENTS)
        if type(fields) is tuple:
            return [(f"{path}.{field}", element) for field, element in zip(fields, elements, strict=False)]
        return [(f"{path}[{index}]", element) for index, element in enumerate(elements)]
    if dataclasses.is_dataclass(kind):
        return [(f"{path}.{name}", element) for name, element in _stored_fields(value)]
    return ()


def _stored_fields(value: Any) -> Iterator[tuple[str, Any]]:
    stored = getattr(value, "__dict__", {})
    for field in dataclasses.fields(value):
        if field.name in stored:
            yield field.name, stored[field.name]
        elif isinstance(getattr(type(value), field.name, None), MemberDescriptorType):  # with __slots__
            yield field.name, getattr(value, field.name, None)


def look_up(expression: str, namespace: Mapping[str, Any]) -> Any:
    """The value of ``NAME``, ``out["loss"]`` or ``state.hidden[0]`` in `namespace`; nothing is called.

    Raises `BadInput` with near matches where a part of the expression does not exist.
    """
    try:
        tree: ast.expr = ast.parse(expression, mode="eval").body
    except SyntaxError as error:
        raise BadInput(f"--root {expression!r} is not a name", hint='use NAME, NAME["key"] or NAME.field') from error
    steps: list[ast.expr] = []
    while isinstance(tree, (ast.Attribute, ast.Subscript)):
        steps.append(tree)
        tree = tree.value
    if not isinstance(tree, ast.Name):
        raise BadInput(f"--root {expression!r} is not a name", hint='use NAME, NAME["key"] or NAME.field')
    if tree.id not in namespace:
        named = [name for name, value in namespace.items() if not name.startswith("__") and _holds_tensors(value)]
        raise BadInput(f"the script has no variable {tree.id!r}", hint=near_matches(tree.id, named))
    value = namespace[tree.id]
    for step in reversed(steps):
        value = _take(value, step, expression)
    return value


def _take(value: Any, step: ast.expr, expression: str) -> Any:
    if isinstance(step, ast.Attribute):
        if hasattr(value, step.attr):
            return getattr(value, step.attr)
        choices = [name for name in dir(value) if not name.startswith("_")]
        raise BadInput(f"--root {expression!r}: no attribute {step.attr!r}", hint=near_matches(step.attr, choices))
    assert isinstance(step, ast.Subscript)
    try:
        key = ast.literal_eval(step.slice)
    except ValueError:
        raise BadInput(f"--root {expression!r}: only plain keys and numbers stand in brackets") from None
    try:
        return value[key]
    except (KeyError, IndexError, TypeError):
        choices = [str(choice) for choice in value] if isinstance(value, Mapping) else []
        hint = near_matches(str(key), choices) if choices else f"it is a {type(value).__name__}"
        raise BadInput(f"--root {expression!r}: no element {key!r}", hint=hint) from None


def _holds_tensors(value: Any) -> bool:
    return any(True for _ in named_tensors(value, "", depth=2))
