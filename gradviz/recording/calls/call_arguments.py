"""Finds tensors and Python numbers among the arguments and results of calls, also in lists and dicts."""

from __future__ import annotations

from itertools import islice
from numbers import Integral
from typing import Any

import torch

from gradviz.graph.model import Scalar
from gradviz.recording.backward.gradients.gradient_watch import measuring
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION

_MAX_ELEMENTS = 10_000
_MAX_NUMBERS = 16
_MAX_TEXT = 40
_MAX_DEPTH = 3


_ATOMS = frozenset({int, float, bool, str, type(None), torch.dtype, torch.device, slice})

Placed = tuple[str, torch.Tensor]
"""A tensor among arguments or results, behind its position."""


def tensors_with_positions(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Placed]:
    """Every tensor among the arguments, with its position: ``0``, ``0[2]``, ``weight``."""
    found: list[Placed] = []
    for position, value in enumerate(args):
        _note_tensors(found, value, str(position), _MAX_DEPTH)
    for name, value in kwargs.items():
        _note_tensors(found, value, name, _MAX_DEPTH)
    return found


def tensors_inside(value: Any, position: str) -> list[Placed]:
    """Every tensor in a value: the value itself, or elements of lists, tuples and dicts, nested a few deep."""
    found: list[Placed] = []
    _note_tensors(found, value, position, _MAX_DEPTH)
    return found


def _note_tensors(found: list[Placed], value: Any, position: str, depth: int) -> None:
    kind = type(value)
    if kind is torch.Tensor or issubclass(kind, torch.Tensor):
        found.append((position, value))
    elif kind in _ATOMS or not depth:
        return
    elif issubclass(kind, (list, tuple)):
        elements = list.__iter__(value) if issubclass(kind, list) else tuple.__iter__(value)
        for index, element in enumerate(islice(elements, _MAX_ELEMENTS)):
            if type(element) not in _ATOMS:
                _note_tensors(found, element, f"{position}[{index}]", depth - 1)
    elif kind is dict:
        for key, element in list(value.items())[:_MAX_ELEMENTS]:
            _note_tensors(found, element, f"{position}[{key!r}]", depth - 1)


def scalars_with_positions(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Scalar]:
    """Numbers, booleans and short strings among the arguments, also in slices and in one level of lists."""
    found: dict[str, Scalar] = {}
    for position, value in enumerate(args):
        if type(value) is not torch.Tensor:
            _note_argument(found, str(position), value)
    for name, value in kwargs.items():
        _note_argument(found, name, value)
    return found


def _note_argument(found: dict[str, Scalar], position: str, value: Any) -> None:
    if type(value) in (list, tuple):
        for index, element in enumerate(value[:_MAX_NUMBERS]):
            _note_all(found, f"{position}[{index}]", element)
    else:
        _note_all(found, position, value)


def _note_all(found: dict[str, Scalar], position: str, value: Any) -> None:
    """Note a number, or the bounds of a slice: ``1.start``, ``1.stop``."""
    if type(value) is slice:
        _note(found, f"{position}.start", _bound(value.start))
        _note(found, f"{position}.stop", _bound(value.stop))
    else:
        _note(found, position, value)


def _bound(value: Any) -> Any:
    """The bound of a slice; of a tensor its number, if no device has to be waited for: ``x[i : i + 8]``."""
    if type(value) is not torch.Tensor or value.device.type != "cpu" or value.dim() or value.dtype not in _INTEGERS:
        return value
    with measuring(), DISABLE_TORCH_FUNCTION():
        return int(value)


_INTEGERS = frozenset({torch.int64, torch.int32})


def _note(found: dict[str, Scalar], position: str, value: Any) -> None:
    if len(found) < _MAX_NUMBERS and (scalar := scalar_of(value)) is not None:
        found[position] = scalar


def scalar_of(value: Any) -> Scalar:
    """The value itself if it is a short string or a number, NumPy's included; else None."""
    kind = type(value)
    if kind is bool or kind is float or (kind is int and -(2**63) <= value < 2**64):
        number: Scalar = value
        return number
    if kind is str:
        return value if len(value) <= _MAX_TEXT else None
    if issubclass(kind, float):
        return float(value)
    if issubclass(kind, Integral) and -(2**63) <= value < 2**64:
        return int(value)
    return None


def numbers_in(value: Any) -> tuple[float | int | bool, ...]:
    """The first numbers of a nested list, such as ``tolist()`` returns."""
    found: list[float | int | bool] = []
    waiting = [value]
    while waiting and len(found) < _MAX_NUMBERS:
        current = waiting.pop()
        if type(current) is list:
            waiting.extend(reversed(current[:_MAX_NUMBERS]))
        elif type(current) in (bool, int, float):
            found.append(current)
    return tuple(found)
