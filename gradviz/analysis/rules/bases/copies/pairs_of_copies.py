"""Whether the labels or the diagonal of a table of all pairs name the other copy of each sample."""

from __future__ import annotations

from gradviz.analysis.rules.bases.copies.axes_of_copies import Axis
from gradviz.graph.call_log import Call

_BOTH = 2


def is_of_two_copies(axis: Axis) -> bool:
    """Whether each row has one partner."""
    return axis.is_of_rows and axis.copies == _BOTH


def names_other_partners(call: Call, axis: Axis) -> bool:
    """Whether the labels of a loss would be the partners of rows in the opposite order."""
    return _has_labels(call, _partners(_BOTH * axis.samples, is_tiled=axis.kind != "tiled"))


def names_same_rows(call: Call, axis: Axis) -> bool:
    """Whether the labels of a loss say that the rows of one part belong to those of another, one by one."""
    return _has_labels(call, list(range(axis.samples)))


def takes_other_partners(call: Call, axis: Axis) -> bool:
    """Whether a diagonal of a table has the pairs of rows that stand one copy of all after the other, though these
    stand sample by sample."""
    return axis.kind == "interleaved" and abs(offset_of(call)) == axis.samples


def offset_of(call: Call) -> int:
    """Which diagonal a call takes."""
    told = next((value for place, value in call.scalars.items() if place in ("1", "offset", "diagonal")), 0)
    return told if type(told) is int else 0


def _partners(count: int, *, is_tiled: bool) -> list[int]:
    """For each row of two copies, the row with the other copy of its sample."""
    return [(row + count // 2) % count if is_tiled else row ^ 1 for row in range(count)]


def _has_labels(call: Call, labels: list[int]) -> bool:
    target = call.inputs[1:2]
    checksum = call.checksums.get(target[0].place) if target else None
    return checksum is not None and checksum == _checksum(labels)


def _checksum(numbers: list[int]) -> int | None:
    """As `Call.checksums` has it; None for tensors of more than one piece."""
    total = sum(number * (2 * place + 1) for place, number in enumerate(numbers))
    return _FACTOR * total if len(numbers) < _PIECE else None


_PIECE = 4_096
_FACTOR = 3
"""That of the elements after the last whole piece, where there are no whole pieces."""
