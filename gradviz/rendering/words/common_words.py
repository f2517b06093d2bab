"""Words for single facts: a shape, a count, a source line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod

from gradviz.graph.model import CallSite, TensorFacts
from gradviz.graph.number_words import counted as counted
from gradviz.graph.query.own_line import line_words, line_words_of


def short_line_words(site: CallSite, program: str) -> str:
    """``train.py:41``, or ``line 41`` if the name of that script is above the picture."""
    words = line_words(site)
    return f"line {site.line}" if words == line_words_of(program, site.line) else words


def shape_words(tensor: TensorFacts | None) -> str:
    """``[8, 64]``; with the dtype if it is not float32."""
    if tensor is None:
        return ""
    shape = shape_words_of(tensor.shape)
    return shape if tensor.dtype == "float32" else f"{shape} {tensor.dtype}"


def shape_words_of(shape: Sequence[int | str]) -> str:
    """``[8, 64]``, ``scalar``."""
    return "[" + ", ".join(map(str, shape)) + "]" if shape else "scalar"


def full_tensor_words(tensor: TensorFacts) -> str:
    """All facts about a tensor: ``[8, 64] float32 on cuda:0``, ``DTensor [8, 64] float32, Shard(0), on cpu``."""
    shape = "[" + ", ".join(map(str, tensor.shape)) + "]"
    layout = "" if tensor.layout == "strided" else f" {tensor.layout}"
    type_name = "" if tensor.type_name == "Tensor" else f"{tensor.type_name} "
    placements = f", {' '.join(tensor.placements)}," if tensor.placements else ""
    return f"{type_name}{shape} {tensor.dtype}{layout}{placements} on {tensor.device}"


def count_words(count: int) -> str:
    """At most three digits: ``512``, ``85.1M``."""
    if count < 1000:
        return str(count)
    size = float(count)
    for unit in ("k", "M", "B"):
        size /= 1000
        if size < 999.5:
            return f"{size:.1f}{unit}" if size < 99.95 else f"{size:.0f}{unit}"
    return f"{size / 1000:.1f}T"


RANGE = " to "


def range_words(numbers: Sequence[int], words: Callable[[int], str]) -> str:
    """``1 to 40``; ``512 to 64`` if the numbers only fall."""
    ends = min(numbers), max(numbers)
    falls = all(one >= other for one, other in pairwise(numbers))
    first, last = map(words, reversed(ends) if falls else ends)
    return first if first == last else f"{first}{RANGE}{last}"


def element_count(tensors: Sequence[TensorFacts | None]) -> int:
    """The number of elements in all tensors; a size that is not a number counts as zero."""
    return sum(prod(size if isinstance(size, int) else 0 for size in tensor.shape) for tensor in tensors if tensor)


def listed(words: Sequence[str], most: int = 6) -> str:
    """``a, b, c and 4 more``."""
    shown = ", ".join(words[:most])
    return f"{shown} and {len(words) - most:,} more" if len(words) > most else shown


def shortened(text: str, length: int) -> str:
    """At most `length` characters, with an ellipsis if the end is cut."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"
