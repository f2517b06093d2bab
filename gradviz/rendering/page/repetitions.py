"""Which repeated boxes the page can also show with each of their repetitions, and how far these open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradviz.graph.number_words import counted
from gradviz.view.fold.open_boxes import RepeatedBox
from gradviz.view.folding import FoldPlan
from gradviz.view.model import View

MAX_REPETITIONS = 200
"""Drawn one below the other; nobody looks at more."""
MAX_OPERATIONS = 3_000
"""In the repetitions of one box, if they can open: every operation has its own words."""
MAX_ITEMS = 60_000
"""In all views made for repetitions: each view costs a pass over the whole graph."""


@dataclass(frozen=True, slots=True)
class ShownEach:
    """A box with each of its repetitions: its views, from the one in which it is open, and the depth of that one."""

    depth: int
    views: Iterator[View]


class PageRepetitions:
    """Chooses among the repeated boxes of a plan, the outermost first."""

    def __init__(self, plan: FoldPlan, items_in_levels: Sequence[int]) -> None:
        """`items_in_levels` are the counts in the views that show one repetition: views that show all have more."""
        self._plan, self._items_in_levels = plan, items_in_levels
        self._left = MAX_ITEMS
        self._left_out = 0
        self._kept_closed = 0

    def boxes(self) -> Iterator[ShownEach]:
        """The boxes to show. The views of a box must be used before the next box."""
        for box in self._plan.repeated_boxes():
            if box.count > MAX_REPETITIONS or self._left <= 0 or self._least_items(box) > MAX_ITEMS:
                self._left_out += 1
            else:
                yield ShownEach(box.level + 1, self._views(box))

    def _least_items(self, box: RepeatedBox) -> int:
        return self._items_in_levels[min(box.level + 1, len(self._items_in_levels) - 1)]

    def _views(self, box: RepeatedBox) -> Iterator[View]:
        for view in self._plan.levels(box):
            yield view
            # However small it is, a view costs a pass over the whole graph.
            self._left -= max(len(view.items), len(self._plan.graph.nodes))
            if box.operations > MAX_OPERATIONS or self._left <= 0:
                self._kept_closed += _keeps_closed(view)
                return

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on what cannot be shown, after all boxes were used."""
        kinds = (
            (self._left_out, "can be shown only by the first of them."),
            (self._kept_closed, "can be shown one by one, but opened only in the first of them."),
        )
        return tuple(f"{counted(rows, 'row')} of alike parts {what}" for rows, what in kinds if rows)


def _keeps_closed(view: View) -> bool:
    """Whether the box that shows each of its repetitions has a closed box inside."""
    inside: set[int] = set()
    for item in view.items:
        if item.each or item.parent in inside:
            inside.add(item.id)
    return any(item.kind == "box" and not item.is_open and item.id in inside for item in view.items)
