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


def numbered(tensor: Any) -> Any:
    """0, 1, 2, … in the shape and type of `tensor`: an operation on them tells where its results come from."""
    return tensor.new_ones(tensor.numel()).cumsum(0).sub(1).reshape(tensor.shape)


def grouped(images: Any, groups: int) -> Any:
    """Images, or patches of them, as one matrix for each sample and group: channels by places."""
    return images.reshape(images.size(0), groups, -1, math.prod(images.shape[2:]))


def grouped_kernels(weight: Any, groups: int) -> Any:
    """The weight of a convolution as one matrix for each group: channels of the result by places in a patch."""
    return weight.reshape(groups, weight.size(0) // groups, -1)


def causal_mask(query: Any, key: Any) -> Any:
    """−∞ for every key that comes later than the query, 0 for the others."""
    return query.new_full((query.size(-2), key.size(-2)), -math.inf).triu(1)


def row(vector: Any) -> Any:
    """A vector as a matrix of one row."""
    return vector.unsqueeze(-2)


def column(vector: Any) -> Any:
    """A vector as a matrix of one column."""
    return vector.unsqueeze(-1)


WORDS: Mapping[str, Any] = {
    "math": math,
    "unreduced": unreduced,
    "sum_of_copies": sum_of_copies,
    "running_sum_from_the_end": running_sum_from_the_end,
    "numbered": numbered,
    "grouped": grouped,
    "grouped_kernels": grouped_kernels,
    "causal_mask": causal_mask,
    "row": row,
    "column": column,
}
"""What an expression finds by these names."""
