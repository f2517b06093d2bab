"""Calls that take rows in another order than they are in: copies of samples paired with the copies of others."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gradviz.analysis.rules.bases.copies.axes_of_copies import Axes, Axis, are_alike, are_opposite
from gradviz.analysis.rules.bases.copies.pairs_of_copies import (
    is_of_two_copies,
    names_other_partners,
    names_partners,
    names_same_rows,
    offset_of,
    takes_other_partners,
)
from gradviz.graph.call_log import Call

Use = Literal["reduced", "paired", "combined", "mixed", "labels", "diagonal"]


class OtherOrder(Struct, frozen=True):
    """A call that takes rows in another order than they are in."""

    axis: Axis
    call: int
    use: Use


_PAIRED: Use = "paired"
_COMBINED: Use = "combined"
_MIXED: Use = "mixed"
_LABELS: Use = "labels"
_DIAGONAL: Use = "diagonal"
DIAGONALS = frozenset({"diag", "diagonal"})
_AXES_OF_TABLE = 2


class OtherOrders:
    """Collects them."""

    def __init__(self) -> None:
        self._found: list[OtherOrder] = []
        self._named = set[int]()
        """Calls that laid out copies of which other calls take the partners as they stand."""

    def told(self) -> list[OtherOrder]:
        """All, without those that are meant."""
        # Beside the partners, a loss may take any other rows, for negatives.
        found = [each for each in self._found if each.use != _LABELS or each.axis.made not in self._named]
        # The labels, or the scores of the pairs, then are rows in another order than those that they are combined with.
        named = {(each.axis.copies, each.axis.samples) for each in found if each.use in (_LABELS, _DIAGONAL)}
        return [each for each in found if each.use != _COMBINED or (each.axis.copies, each.axis.samples) not in named]

    def note(self, axis: Axis, row: int, use: Use) -> None:
        """Note what a call does."""
        self._found.append(OtherOrder(axis, row, use))

    def note_opposites(self, row: int, one: Axis, other: Axis) -> None:
        """Note a call that puts rows of one order together with those of another."""
        if are_opposite(one, other):
            later = max(one, other, key=lambda axis: (axis.kind == "mixed", axis.made))
            use = _MIXED if later.kind == "mixed" else _PAIRED if one.kind == "part" else _COMBINED
            self.note(later, row, use)

    def note_pairs(self, row: int, call: Call, name: str, axes: Axes) -> None:
        """Note labels and diagonals of a table of all pairs, if they name others than the copies of each sample."""
        if len(axes) != _AXES_OF_TABLE:
            return
        one, other = axes
        if one is None or other is None:
            return
        is_of_labels = name not in DIAGONALS
        if are_opposite(one, other) and one.kind == "part":
            is_other, use = names_same_rows(call, one) if is_of_labels else offset_of(call) == 0, _PAIRED
        elif are_alike(one, other) and is_of_two_copies(one):
            is_other = names_other_partners(call, one) if is_of_labels else takes_other_partners(call, one)
            use = _LABELS if is_of_labels else _DIAGONAL
            if is_of_labels and names_partners(call, one):
                self._named.add(one.made)
        else:
            return
        if is_other:
            self.note(one, row, use)
