"""The functions that expressions may use besides those of torch: tensors in, tensors out, without importing torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def unreduced(reduced: Any, whole: Any, dim: Any) -> Any:
    """``reduced``, in which `dim` is missing or 1, with size 1 in each reduced dimension, so that it broadcasts.

    ``whole`` is the tensor that was reduced; `dim` is one number, several, or None for all.
    """
    return reduced.reshape(whole.sum(dim, keepdim=True).shape)


def sum_of_copies(tiled: Any, tile: Any) -> Any:
    """The sum over the copies of `tile` that ``tile.repeat(...)`` made, in the shape of `tile`."""
    sizes = [1] * (tiled.ndim - tile.ndim) + list(tile.shape)
    counts = [side // size if size else 1 for side, size in zip(tiled.shape, sizes, strict=True)]
    split = [part for pair in zip(counts, sizes, strict=True) for part in pair]
    return tiled.reshape(split).sum(tuple(range(0, len(split), 2))).reshape(tile.shape)


def running_sum_from_the_end(tensor: Any, dim: int) -> Any:
    """For each element the sum of it and all later ones."""
    return tensor.flip(dim).cumsum(dim).flip(dim)


def numbered(tensor: Any) -> Any:
    """0, 1, 2, … in the shape and type of `tensor`: an operation on them shows where its results come from."""
    return tensor.new_ones(tensor.numel()).cumsum(0).sub(1).reshape(tensor.shape)


def unfolded(images: Any, weight: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    """All patches that a kernel covers, as columns: samples by channels and positions in the patch by positions of
    patches."""
    size, spatial = weight.shape[2:], images.shape[2:]
    sides = [side + 2 * width for side, width in zip(spatial, padding, strict=True)]
    padded = images.new_zeros([*images.shape[:2], *sides])
    all_of_both = (slice(None), slice(None))
    inside = (*all_of_both, *(slice(width, width + side) for side, width in zip(spatial, padding, strict=True)))
    padded[inside] = images
    for axis, (length, step, gap) in enumerate(zip(size, stride, dilation, strict=True), start=2):
        padded = padded.unfold(axis, gap * (length - 1) + 1, step)[..., ::gap]
    rank = len(size)
    order = (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
    return padded.permute(order).reshape(images.size(0), images.size(1) * math.prod(size), -1)


def folded(columns: Any, images: Any, weight: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    """Patches put back at their positions in `images`, added where they overlap."""
    # Padding has number 0, which is dropped.
    numbers = numbered(images[:1, :1]) + 1
    positions = unfolded(numbers, weight, stride, padding, dilation).long().flatten()
    values = columns.reshape(images.size(0), images.size(1), -1)
    summed = values.new_zeros(*values.shape[:2], 1 + numbers.numel()).index_add(2, positions, values)
    return summed[..., 1:].reshape(images.shape)


def grouped(images: Any, groups: int) -> Any:
    """Images, or patches of them, as one matrix for each sample and group: channels by positions."""
    return images.reshape(images.size(0), groups, -1, math.prod(images.shape[2:]))


def grouped_kernels(weight: Any, groups: int) -> Any:
    """The weight of a convolution as one matrix for each group: channels of the result by positions in a patch."""
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


def columns(tensor: Any, matrix: Any) -> Any:
    """A vector as a matrix of one column; a tensor with as many dimensions as `matrix` unchanged."""
    return column(tensor) if tensor.ndim < matrix.ndim else tensor


EXPRESSION_FUNCTIONS: Mapping[str, Any] = {
    "math": math,
    "unreduced": unreduced,
    "sum_of_copies": sum_of_copies,
    "running_sum_from_the_end": running_sum_from_the_end,
    "numbered": numbered,
    "unfolded": unfolded,
    "folded": folded,
    "grouped": grouped,
    "grouped_kernels": grouped_kernels,
    "causal_mask": causal_mask,
    "row": row,
    "column": column,
    "columns": columns,
}
"""What expressions find under these names."""
