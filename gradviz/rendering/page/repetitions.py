"""Which repeated boxes a page can also show with each of their repetitions, and how far these open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradviz.graph.words import counted
from gradviz.view.fold.opening import RepeatedBox
from gradviz.view.folding import FoldPlan
from gradviz.view.model import View

MAX_REPETITIONS = 200
"""Drawn one below the other; nobody looks at more."""
MAX_OPERATIONS = 3_000
"""In the repetitions of one box, if they are to open: every operation has words of its own."""
MAX_ITEMS = 60_000
"""Of all views together that are made for repetitions: each costs a pass over the whole graph."""


@dataclass(frozen=True, slots=True)
class ShownEach:
    """A box with each of its repetitions: the views of it, from the one in which it is open, and how deep that is."""

    depth: int
    views: Iterator[View]


class PageRepetitions:
    """Chooses among the repeated boxes of a plan, the outermost first."""

    def __init__(self, plan: FoldPlan, items_in_levels: Sequence[int]) -> None:
        """`items_in_levels` are the counts in the views that show one of each: what shows more has more."""
        self._plan, self._items_in_levels = plan, items_in_levels
        self._left = MAX_ITEMS
        self._left_out = 0
        self._kept_closed = 0

    def boxes(self) -> Iterator[ShownEach]:
        """What is to be shown; the views have to be walked before the next."""
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
            # However little it shows, a view costs a pass over the whole graph.
            self._left -= max(len(view.items), len(self._plan.graph.nodes))
            if box.operations > MAX_OPERATIONS or self._left <= 0:
                self._kept_closed += _keeps_closed(view)
                return

    @property
    def notes(self) -> tuple[str, ...]:
        """What cannot be shown so, once all is walked."""
        told = (
            (self._left_out, "can only be shown by the first of them."),
            (self._kept_closed, "can be shown one by one, but opened only in the first of them."),
        )
        return tuple(f"{counted(rows, 'row')} of alike parts {what}" for rows, what in told if rows)


def _keeps_closed(view: View) -> bool:
    """Whether there is a closed box in the one that shows each of its repetitions."""
    inside: set[int] = set()
    for item in view.items:
        if item.each or item.parent in inside:
            inside.add(item.id)
    return any(item.kind == "box" and not item.is_open and item.id in inside for item in view.items)
