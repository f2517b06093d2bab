"""Tells whether a result of a program has a history."""

from __future__ import annotations

from typing import TypeVar

import torch

Value = TypeVar("Value")


class HasHistory(Exception):
    """It has."""


def live(value: Value) -> Value:
    """Raise if any of the tensors has a ``grad_fn``; else give them back."""
    tensors = value if isinstance(value, (tuple, list)) else [value]
    if any(isinstance(each, torch.Tensor) and each.grad_fn is not None for each in tensors):
        raise HasHistory
    return value
