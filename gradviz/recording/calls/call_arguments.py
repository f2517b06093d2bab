"""What calls take and give besides single tensors: tensors in lists, and Python numbers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch

from gradviz.graph.model import Scalar

_MAX_ELEMENTS = 10_000
_MAX_NUMBERS = 16
_LONGEST_TEXT = 40
_DEPTH = 3


def tensors_with_places(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor among the arguments: ``0``, ``0[2]``, ``weight``."""
    for place, value in enumerate(args):
        yield from tensors_inside(value, str(place))
    for name, value in kwargs.items():
        yield from tensors_inside(value, name)


def tensors_inside(value: Any, place: str, depth: int = _DEPTH) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in a value: itself, or in lists, tuples and dicts. Recursive, to a depth that calls do not pass."""
    kind = type(value)
    if issubclass(kind, torch.Tensor):
        yield place, value
    elif depth and issubclass(kind, (list, tuple)):
        elements = list.__iter__(value) if issubclass(kind, list) else tuple.__iter__(value)
        for index, element in enumerate(islice(elements, _MAX_ELEMENTS)):
            yield from tensors_inside(element, f"{place}[{index}]", depth - 1)
    elif depth and kind is dict:
        for key, element in list(value.items())[:_MAX_ELEMENTS]:
            yield from tensors_inside(element, f"{place}[{key!r}]", depth - 1)


def scalars_with_places(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Scalar]:
    """Python numbers, truth values and short texts among the arguments, also in slices and in one level of lists."""
    found: dict[str, Scalar] = {}
    for place, value in (*((str(place), value) for place, value in enumerate(args)), *kwargs.items()):
        if type(value) in (list, tuple):
            for index, element in enumerate(value[:_MAX_NUMBERS]):
                _note_all(found, f"{place}[{index}]", element)
        else:
            _note_all(found, place, value)
    return found


def _note_all(found: dict[str, Scalar], place: str, value: Any) -> None:
    """A number, or those that bound a slice: ``1.start``, ``1.stop``."""
    if type(value) is slice:
        _note(found, f"{place}.start", value.start)
        _note(found, f"{place}.stop", value.stop)
    else:
        _note(found, place, value)


def _note(found: dict[str, Scalar], place: str, value: Any) -> None:
    if len(found) < _MAX_NUMBERS and (scalar := scalar_of(value)) is not None:
        found[place] = scalar


def scalar_of(value: Any) -> Scalar:
    """The value itself if it is plain and small, also of NumPy's kinds of numbers; else None."""
    kind = type(value)
    if kind is bool or kind is float or (kind is int and -(2**63) <= value < 2**64):
        number: Scalar = value
        return number
    if kind is str:
        return value if len(value) <= _LONGEST_TEXT else None
    if issubclass(kind, float):
        return float(value)
    return None


def numbers_in(value: Any) -> tuple[float | int | bool, ...]:
    """The first numbers of a nested list, as ``tolist()`` gives it."""
    found: list[float | int | bool] = []
    waiting = [value]
    while waiting and len(found) < _MAX_NUMBERS:
        current = waiting.pop()
        if type(current) is list:
            waiting.extend(reversed(current[:_MAX_NUMBERS]))
        elif type(current) in (bool, int, float):
            found.append(current)
    return tuple(found)
