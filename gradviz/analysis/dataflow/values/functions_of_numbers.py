"""Usual functions of a Python number that had left torch, by their results: ``math.exp(-log_var.item())``.

What Python computes is not recorded. A float with many digits that equals such a function of a number that had left is
hardly chance.

>>> known = FunctionsOfNumbers()
>>> known.add(0.7310585975646973, (3, 1))
>>> known.find(math.exp(-0.7310585975646973))
(3, 1)
>>> known.find(0.5)
"""

from __future__ import annotations

import math
from collections import deque

_Exit = tuple[int, int]
"""The call where a number left, and the tensor that it was."""
_MANY_DIGITS = 12
_DIGITS_COMPARED = 12
_LARGEST = 300.0
"""Exponentials of twice as much are still finite."""
_MOST_NUMBERS = 3_000
_MOST_RESULTS = 100_000
"""Beyond these, earlier numbers are forgotten: a weight is used soon after it was read."""


class FunctionsOfNumbers:
    """Numbers that left torch; their functions are computed once something is looked for."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[float, _Exit]] = deque(maxlen=_MOST_NUMBERS)
        self._by_result: dict[str, _Exit] = {}

    def add(self, value: float, left: _Exit) -> None:
        """Remember a number, if it has so many digits that its functions cannot be there by chance."""
        if abs(value) < _LARGEST and len(repr(value)) >= _MANY_DIGITS:
            self._waiting.append((value, left))

    def find(self, scalar: float) -> _Exit | None:
        """Where a number left of which this is a function."""
        if not (self._waiting or self._by_result) or len(repr(scalar)) < _MANY_DIGITS:
            return None
        if len(self._by_result) > _MOST_RESULTS:
            self._by_result.clear()
        for value, left in self._waiting:
            self._by_result.update((_key(result), left) for result in _functions(value))
        self._waiting.clear()
        return self._by_result.get(_key(scalar))


def is_function_of(scalar: float, value: float) -> bool:
    """Whether a number equals another one, or a usual function of it, which says something if both are used at once."""
    return abs(value) < _LARGEST and _key(scalar) in {_key(each) for each in (value, *_functions(value))}


def _key(number: float) -> str:
    return f"{number:.{_DIGITS_COMPARED - 1}e}"


def _functions(value: float) -> list[float]:
    """Weights, variances, rates and probabilities that programs compute from a number."""
    up, half, twice = math.exp(value), math.exp(value / 2), math.exp(2 * value)
    results = [-value, value / 2, 2 * value, 1 - value, 1 + value, value * value, up, half, twice, math.tanh(value)]
    results += [math.log1p(up), 1 / (1 + up), up / (1 + up)]
    inverses = [1 / up, 1 / half, 1 / twice] + ([1 / value, 1 / value**2] if value * value else [])
    results += [*inverses, *(each / 2 for each in inverses), up / 2, value * value / 2]
    return results + ([math.sqrt(value), math.log(value)] if value > 0 else [])
