"""Which axes of a tensor hold copies of samples, which the samples, and in which order rows have both.

A batch of `samples` that is copied `copies` times has its rows in one of two orders: all samples of the first copy,
then those of the second (``x.repeat(g, 1)``, *tiled*), or all copies of the first sample, then those of the second
(``x.repeat_interleave(g, 0)``, *interleaved*). A view that cuts such rows at the wrong place mixes samples.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gradviz.analysis.dataflow.broadcasts import Shape

AxisKind = Literal["copies", "samples", "tiled", "interleaved", "no_copies", "no_samples", "part", "mixed"]
"""``copies`` and ``samples``: an axis with one of both; ``tiled`` and ``interleaved``: rows with both.

The others are of rows that were cut at the wrong place: ``no_copies`` and ``no_samples`` are the axes of a view that
has as many copies and samples, ``part`` is a part of the rows with as many as there are samples, and ``mixed`` is an
axis of all these parts."""


class Axis(Struct, frozen=True):
    """What one axis of a tensor holds."""

    kind: AxisKind
    made: int
    """The call that laid the copies out."""
    copies: int
    samples: int
    cut: int | None = None
    """The call that cut the rows at the wrong place."""
    part: int | None = None
    """Which part it is."""
    order: Literal["tiled", "interleaved"] | None = None
    """In which order the rows are that were cut."""
    is_of_loader: bool = False
    """Whether a data set stacked the copies, sample by sample: they are laid out where the axes are joined."""

    @property
    def is_of_rows(self) -> bool:
        """Whether it holds copies and samples together."""
        return self.kind in ("tiled", "interleaved")


Axes = tuple[Axis | None, ...]
_OPPOSITES = {"tiled": "interleaved", "interleaved": "tiled"}


def copied(before: Shape, after: Shape, row: int) -> Axes | None:
    """The axes of what was copied from one shape to another by ``repeat``, ``tile``, ``expand`` or broadcasting.

    >>> [axis and axis.kind for axis in copied((3, 4), (6, 4), 0)]
    ['tiled', None]
    >>> [axis and axis.kind for axis in copied((3, 1, 4), (3, 2, 4), 0)]
    ['samples', 'copies', None]
    """
    rest = len(after) - 2
    if len(after) == len(before) + 1 and before and after[1:] == before:
        return pair(after[0], before[0], row, is_copies_first=True, rest=rest)
    if len(after) != len(before) or not before:
        return None
    if before[0] > 1 and after[0] > before[0]:
        first = rows(after[0] // before[0], before[0], row, "tiled")
        is_square = len(before) > 1 and (before[1], after[1]) == (before[0], after[0])
        return (
            None if first is None else (first, *(first if is_square and not axis else None for axis in range(rest + 1)))
        )
    if rest < 0 or before[2:] != after[2:]:
        return None
    if before[0] == 1 < after[0] and before[1] == after[1]:
        return pair(after[0], after[1], row, is_copies_first=True, rest=rest)
    if before[1] == 1 < after[1] and before[0] == after[0]:
        return pair(after[1], after[0], row, is_copies_first=False, rest=rest)
    return None


def pair(copies: int, samples: int, row: int, *, is_copies_first: bool, rest: int) -> Axes | None:
    """An axis of copies and one of samples, and others after them; None where both have the same size."""
    if min(copies, samples) < _AT_LEAST or copies == samples:
        return None
    both = Axis("copies", row, copies, samples), Axis("samples", row, copies, samples)
    return (*(both if is_copies_first else reversed(both)), *(None,) * rest)


def rows(copies: int, samples: int, row: int, kind: Literal["tiled", "interleaved"]) -> Axis | None:
    """An axis of copies and samples; None where both are as many, so that an order cannot be told from the other."""
    is_known = min(copies, samples) >= _AT_LEAST and copies != samples
    return Axis(kind, row, copies, samples) if is_known else None


_AT_LEAST = 2


def are_opposite(one: Axis, other: Axis) -> bool:
    """Whether two axes hold as many copies of as many samples in opposite orders, or two parts of wrongly cut rows."""
    if (one.copies, one.samples) != (other.copies, other.samples):
        return False
    is_of_parts = one.kind == other.kind == "part" and one.made == other.made and one.part != other.part
    is_mixed = {one.kind, other.kind} in ({"mixed", "tiled"}, {"mixed", "interleaved"})
    return is_of_parts or is_mixed or _OPPOSITES.get(one.kind) == other.kind


def are_alike(one: Axis, other: Axis) -> bool:
    """Whether two axes hold the same in the same order."""
    return replace(one, made=0, cut=None) == replace(other, made=0, cut=None)


def part_of_rows(axis: Axis, cut: int, part: int, *, is_strided: bool) -> Axis | None:
    """A part with as many rows as there are samples; None where it is a copy of each sample."""
    is_wrong = axis.kind == ("tiled" if is_strided else "interleaved")
    return replace(axis, kind="part", cut=cut, part=part, order=_order(axis)) if is_wrong else None


def group_of_rows(axis: Axis, cut: int, *, is_strided: bool) -> Axis:
    """As many rows as there are copies: those of one sample, or rows of as many samples."""
    if axis.kind == ("tiled" if is_strided else "interleaved"):
        return replace(axis, kind="copies")
    return replace(axis, kind="no_copies", cut=cut, order=_order(axis))


def _order(axis: Axis) -> Literal["tiled", "interleaved"]:
    return "tiled" if axis.kind == "tiled" else "interleaved"


# -- views -------------------------------------------------------------------------------------------------------------


def reshaped(axes: Axes, before: Shape, after: Shape, row: int) -> Axes:
    """The axes after ``view``, ``reshape`` or ``flatten``.

    >>> [axis.kind for axis in reshaped(copied((3,), (6,), 0), (6,), (3, 2), 1)]
    ['no_samples', 'no_copies']
    """
    found: list[Axis | None] = [None] * len(after)
    for left, right in _blocks(before, after):
        if len(left) == len(right) == 1:
            found[right[0]] = axes[left[0]]
        elif len(left) == _AT_LEAST and len(right) == 1:
            found[right[0]] = _joined(axes[left[0]], axes[left[1]], row)
        elif len(left) == 1 and len(right) == _AT_LEAST:
            found[right[0]], found[right[1]] = _cut(axes[left[0]], after[right[0]], after[right[1]], row)
    return tuple(found)


def _blocks(before: Shape, after: Shape) -> list[tuple[list[int], list[int]]]:
    """The smallest groups of axes with as many elements before and after; axes of a single element are left out."""
    waiting = [[axis for axis, size in enumerate(shape) if size > 1] for shape in (after, before)]
    blocks: list[tuple[list[int], list[int]]] = []
    while all(waiting):
        right, left = ([each.pop(0)] for each in waiting)
        ahead = after[right[0]], before[left[0]]
        while ahead[0] != ahead[1]:
            is_left = ahead[1] < ahead[0]
            if not waiting[is_left]:
                return blocks
            axis = waiting[is_left].pop(0)
            (left if is_left else right).append(axis)
            ahead = (ahead[0], ahead[1] * before[axis]) if is_left else (ahead[0] * after[axis], ahead[1])
        blocks.append((left, right))
    return blocks


def _joined(first: Axis | None, second: Axis | None, row: int) -> Axis | None:
    if first is None or second is None or first.made != second.made:
        return None
    if first.is_of_loader:
        first = replace(first, made=row, is_of_loader=False)
    kinds = first.kind, second.kind
    if kinds == ("copies", "samples"):
        return replace(first, kind="tiled")
    return replace(first, kind="interleaved") if kinds == ("samples", "copies") else None


def _cut(axis: Axis | None, first: int, second: int, row: int) -> tuple[Axis | None, Axis | None]:
    if axis is None or not axis.is_of_rows or {first, second} != {axis.copies, axis.samples}:
        return None, None
    copies, samples = replace(axis, kind="copies"), replace(axis, kind="samples")
    is_copies_first = first == axis.copies
    if is_copies_first is not (axis.kind == "tiled"):
        cut = replace(axis, cut=row, order=_order(axis))
        copies, samples = replace(cut, kind="no_copies"), replace(cut, kind="no_samples")
    return (copies, samples) if is_copies_first else (samples, copies)
