"""The few functions that expressions may use besides those of torch: tensors in, tensors out, torch not imported."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def unreduced(reduced: Any, whole: Any, dim: Any) -> Any:
    """``reduced``, of which `dim` is missing or 1, with 1 in place of each reduced dimension, so that it broadcasts.

    ``whole`` is what was reduced; `dim` is one number, several, or None for all.
    """
    return reduced.reshape(whole.sum(dim, keepdim=True).shape)


def sum_of_copies(tiled: Any, tile: Any) -> Any:
    """The sum over the copies of `tile` that ``tile.repeat(...)`` made, in the shape of `tile`."""
    sizes = [1] * (tiled.ndim - tile.ndim) + list(tile.shape)
    split = [part for size, all_of_it in zip(sizes, tiled.shape, strict=True) for part in (all_of_it // size, size)]
    return tiled.reshape(split).sum(tuple(range(0, len(split), 2))).reshape(tile.shape)


def running_sum_from_the_end(tensor: Any, dim: int) -> Any:
    """At each place the sum of what is there and behind it."""
    return tensor.flip(dim).cumsum(dim).flip(dim)


WORDS: Mapping[str, Any] = {
    "math": math,
    "unreduced": unreduced,
    "sum_of_copies": sum_of_copies,
    "running_sum_from_the_end": running_sum_from_the_end,
}
"""What an expression finds by these names."""
