"""One view of a graph with boxes open to one depth, and the words for the items that it shows first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from msgspec.structs import replace

from gradviz.rendering.formats import Subject
from gradviz.rendering.look.node_label import NodeLabel, node_label_of
from gradviz.rendering.look.palette import role_of
from gradviz.rendering.page.item_numbers import Identities
from gradviz.rendering.words.item_words import ItemText, item_label_text
from gradviz.rendering.words.subject_facts import SubjectFacts
from gradviz.view.model import Item, View

_NO_WORDS = ItemText("")


@dataclass(frozen=True)
class Level:
    """A view in which boxes inside fewer than `depth` other boxes are open.

    `texts` and `node_labels` are for `closed` and `opened` only: the other items have their words at another level.
    """

    facts: SubjectFacts
    depth: int
    identities: Identities
    numbers: list[int | None]
    texts: list[ItemText]
    node_labels: list[NodeLabel]
    closed: list[Item]
    """All new items inside exactly `depth` boxes."""
    opened: list[int | None]
    """The open boxes around those; at depth 0 the outermost level, None."""

    @property
    def view(self) -> View:
        return self.facts.view

    @property
    def showing_each(self) -> list[Item]:
        """The box among `opened` that shows each of its repetitions."""
        return [item for box in self.opened if box is not None and (item := self.view.items[box]).each]

    @cached_property
    def closed_in(self) -> dict[int | None, list[Item]]:
        """`closed`, by the box around each item."""
        found: dict[int | None, list[Item]] = {}
        for item in self.closed:
            found.setdefault(item.parent, []).append(item)
        return found

    def number(self, item: int) -> int:
        """The number of an item of this level."""
        found = self.numbers[item]
        assert found is not None, "only leaves of other levels have no number"
        return found

    def number_of(self, box: int | None) -> int | None:
        """The number of a box; None for the outermost level."""
        return None if box is None else self.number(box)

    def is_around_opened(self, box: int | None) -> bool:
        """Whether a box may have some of `opened` inside."""
        if box is None:
            return self.depth == 1 and self.identities.is_new(0)
        number = self.number(box)
        return self.identities.depths[number] == self.depth - 2 and self.identities.is_new(number)


def level_of(subject: Subject, view: View, depth: int, identities: Identities) -> Level:
    """The words and labels of the items that a view shows at a depth."""
    facts = SubjectFacts(subject.capture, subject.graph, view, subject.marks)
    depths = view.depths()
    numbers = identities.of_view(view, depth)
    new = [item for item in view.items if identities.is_new(numbers[item.id])]
    closed = [item for item in new if depths[item.id] == depth]
    opened: list[int | None] = [item.id for item in new if item.is_open and depths[item.id] == depth - 1]
    with_words = {*opened, *(item.id for item in closed)}
    texts, node_labels = [_NO_WORDS] * len(view.items), []
    for item in view.items:
        if item.id in with_words:
            texts[item.id] = item_label_text(facts, replace(item, repeat=item.each) if item.each else item)
            node_labels.append(node_label_of(subject.graph, item, texts[item.id]))
        else:
            node_labels.append(NodeLabel(role_of(item, subject.graph), 0.0, 0.0, (), is_open=item.is_open))
    return Level(facts, depth, identities, numbers, texts, node_labels, closed, opened if depth else [None])
