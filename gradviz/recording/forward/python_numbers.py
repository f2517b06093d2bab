"""The Python number that an arithmetic call takes beside a tensor: torch's nodes do not keep it."""

from __future__ import annotations

from typing import Any

import torch

_WORDS = "add sub mul div true_divide floor_divide remainder fmod"
_METHODS = (
    *(word for word in _WORDS.split()),
    *(f"{word}_" for word in _WORDS.split()),
    *(f"__{sign}{word}__" for word in ["add", "sub", "mul", "truediv", "floordiv", "mod"] for sign in ("", "r", "i")),
    "rsub",
    "__rpow__",
)
_FUNCTIONS = tuple(
    function
    for owner in (torch, torch.Tensor)
    for name in _METHODS
    if (function := getattr(owner, name, None)) is not None and function is not NotImplemented
)
"""The functions of torch that take a tensor and a tensor or a number."""
ARITHMETIC = frozenset(map(id, _FUNCTIONS))
"""Their ids, because a program can call what is not hashable."""
_MAX_INTEGER = 2**63
"""Captures hold integers up to here."""


def python_number(args: tuple[Any, ...]) -> int | float | None:
    """The first of two operands that is a number; None if both are tensors."""
    for value in args[:2]:
        if type(value) is float or (type(value) is int and abs(value) < _MAX_INTEGER):
            return value
    return None
