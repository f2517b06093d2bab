"""Whole numbers that a function holds, without calling it: in its closure, defaults, bound arguments and object.

>>> def for_steps(total, warmup=3):
...     return lambda step: min(1, step / warmup) * (1 - step / total)
>>> held_counts([for_steps(40)])
(3, 40)
>>> held_counts([partial(pow, 2, mod=7)])
(2, 7)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import FunctionType, MethodType
from typing import Any

_MAX_COUNTS = 20
_MAX_COUNT = 2**53 - 1
_MAX_DEPTH = 3


def held_counts(functions: object) -> tuple[int, ...]:
    """Those above zero in a list of functions, in order of size."""
    if not isinstance(functions, list):
        return ()
    values = (value for function in functions for value in _values_in(function, _MAX_DEPTH))
    counts = {value for value in values if type(value) is int and 0 < value <= _MAX_COUNT}
    return tuple(sorted(counts)[-_MAX_COUNTS:])


def _values_in(function: Any, depth: int) -> Iterator[object]:
    """What it holds, and what is held by functions that it holds."""
    if depth == 0:
        return
    if isinstance(function, FunctionType):
        held = [*_contents(function), *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        names = function.__code__.co_names
        held += [function.__globals__[name] for name in names if name in function.__globals__]
    elif isinstance(function, partial):
        held = [function.func, *function.args, *function.keywords.values()]
    elif isinstance(function, MethodType):
        held = [function.__func__, *_attributes(function.__self__)]
    else:
        held = _attributes(function) if callable(function) and not isinstance(function, type) else []
    for each in held:
        yield each
        if isinstance(each, FunctionType | partial | MethodType):
            yield from _values_in(each, depth - 1)


def _contents(function: FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            content = cell.cell_contents
        except ValueError:  # It is still empty.
            continue
        yield content


def _attributes(owner: object) -> list[object]:
    attributes = getattr(owner, "__dict__", None)
    return list(attributes.values()) if isinstance(attributes, dict) else []
