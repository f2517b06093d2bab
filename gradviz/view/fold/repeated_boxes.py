"""The boxes of a folded graph that stand for several alike, for pictures that show each repetition for itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradviz.view.fold.arrangement import Arrangements
from gradviz.view.fold.groups import Entry, Group
from gradviz.view.fold.opening import Span, inside_of


@dataclass(frozen=True, slots=True)
class RepeatedBox:
    """A box with a count, such as ``×12``."""

    level: int
    """How many boxes are around it."""
    span: Span
    count: int

    @property
    def operations(self) -> int:
        """In all its repetitions."""
        return self.span[1] - self.span[0]


def repeated_boxes(arrangements: Arrangements) -> Iterator[RepeatedBox]:
    """All that appear while open boxes show the first of their repetitions."""
    outermost = arrangements.nesting.outermost
    stack: list[tuple[int, tuple[Entry, ...], int]] = [(outermost, arrangements.entries_of(outermost), 0)]
    while stack:
        container, entries, level = stack.pop()
        for entry in entries:
            if isinstance(entry, Group) and entry.count > 1:
                yield RepeatedBox(level, arrangements.weights.span(container, entry), entry.count)
            inside = inside_of(arrangements, container, entry)
            if inside is not None:
                stack.append((*inside, level + 1))
