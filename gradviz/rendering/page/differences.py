"""What differs between two runs, for the page of a graph of both: an item for each difference, to jump to."""

from __future__ import annotations

from dataclasses import dataclass

from gradviz.graph.traversal import consumers
from gradviz.rendering.formats import Subject
from gradviz.rendering.page.document import PageDifference, PageStop
from gradviz.rendering.page.items import cut
from gradviz.rendering.page.level import Level
from gradviz.rendering.words.difference_words import marks_in, states_in
from gradviz.rendering.words.flags import item_flag
from gradviz.view.model import Item


@dataclass(frozen=True, slots=True)
class _Candidate:
    order: int
    """The first node of the item."""
    parent: int | None
    is_whole: bool
    """Whether only one run has everything in it."""
    is_box: bool
    stop: PageStop


class PageDifferences:
    """Collects the items that differ, level by level.

    A box that only one run has is one difference, whatever is in it. A leaf is none beside an operation that differs
    as it does.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._users = [] if subject.marks is None else consumers(subject.graph)
        self._candidates: dict[int, _Candidate] = {}
        self._parents: dict[int, int | None] = {}

    def add(self, level: Level) -> None:
        """Add the items that a level shows first."""
        if self._subject.marks is None:
            return
        for item in level.closed:
            number = level.number(item.id)
            self._parents[number] = level.number_of(item.parent)
            if marks_in(level.facts, item) and not self._is_beside_its_users(item):
                self._candidates[number] = self._candidate(level, item, number)

    def _candidate(self, level: Level, item: Item, number: int) -> _Candidate:
        marks = marks_in(level.facts, item)
        flag = item_flag(level.facts, item)
        assert flag is not None, "what differs has a flag"
        is_first = any(mark.is_first for mark in marks)
        stop = PageStop(number, cut(flag.words), cut(flag.reason), is_first)
        is_box = item.kind == "box"
        states = states_in(level.facts, item)
        is_whole = is_box and len(states) == 1 and states <= {"only_a", "only_b"}
        return _Candidate(min(item.nodes), level.number_of(item.parent), is_whole, is_box, stop)

    def _is_beside_its_users(self, item: Item) -> bool:
        marks, nodes = self._subject.marks, self._subject.graph.nodes
        if marks is None or item.kind == "box" or item.node is None or not nodes[item.node].is_leaf:
            return False
        state = marks.state_of(item.node)
        is_first = marks.of_nodes[item.node].is_first
        return not is_first and all(marks.state_of(user) == state for user in self._users[item.node])

    def finished(self) -> PageDifference | None:
        """None for a graph of one run."""
        if self._subject.counterparts is None:
            return None
        difference = self._subject.counterparts.compared.difference
        drawn: dict[tuple[int, str], PageStop] = {}
        for number, found in sorted(self._candidates.items(), key=lambda entry: (entry[1].order, entry[0])):
            if (found.is_box and not found.is_whole) or self._is_in_whole_box(number):
                continue
            # A leaf is drawn beside each of its users.
            drawn.setdefault((found.order, "box" if found.is_box else "item"), found.stop)
        return PageDifference(cut(difference.sentence), cut(difference.a), cut(difference.b), tuple(drawn.values()))

    def _is_in_whole_box(self, number: int) -> bool:
        parent = self._parents.get(number)
        while parent is not None:
            found = self._candidates.get(parent)
            if found is not None and found.is_whole:
                return True
            parent = self._parents.get(parent)
        return False
