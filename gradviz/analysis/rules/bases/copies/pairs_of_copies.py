"""Whether the labels or the diagonal of a table of all pairs name the other copy of each sample."""

from __future__ import annotations

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.rules.bases.copies.axes_of_copies import Axis
from gradviz.graph.call_log import Call

_BOTH = 2


def is_of_two_copies(axis: Axis) -> bool:
    """Whether each row has one partner."""
    return axis.is_of_rows and axis.copies == _BOTH


def names_other_partners(call: Call, axis: Axis) -> bool:
    """Whether the labels of a loss would be the partners of rows in the opposite order."""
    return _has_labels(call, _partners(_BOTH * axis.samples, is_tiled=axis.kind != "tiled"))


def names_partners(call: Call, axis: Axis) -> bool:
    """Whether they are the partners of rows in the order in which the rows are."""
    return _has_labels(call, _partners(_BOTH * axis.samples, is_tiled=axis.kind == "tiled"))


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


def chooses_by_row(call: Call, name: str) -> bool:
    """Whether a call takes one element of each row of a table, as the labels of a loss would name it."""
    if name == "getitem":  # table[rows, columns]
        return len(call.inputs) == _TABLE_ROWS_COLUMNS
    return name in ("gather", "take_along_dim") and axis_of(call, _BOTH, "1" if name == "gather" else "2") == 1


_TABLE_ROWS_COLUMNS = 3


def _has_labels(call: Call, labels: list[int]) -> bool:
    """Whether a call is given these labels, for the rows in their order."""
    given = [call.checksums.get(use.place) for use in call.inputs[1:]]
    if len(given) > 1 and plain_name(call.function) == "getitem":
        return given == [_checksum(list(range(len(labels)))), _checksum(labels)]
    return bool(given) and given[0] is not None and given[0] == _checksum(labels)


def _checksum(numbers: list[int]) -> int | None:
    """As `Call.checksums` has it; None for tensors of more than one piece."""
    total = sum(number * (2 * place + 1) for place, number in enumerate(numbers))
    return _FACTOR * total if len(numbers) < _PIECE else None


_PIECE = 4_096
_FACTOR = 3
"""That of the elements after the last whole piece, where there are no whole pieces."""
