"""One view of a graph, with boxes open to one depth, and the words for what that depth shows for the first time."""

from __future__ import annotations

from dataclasses import dataclass

from gradviz.graph.view import Item, View
from gradviz.rendering.faces import Face, face_of
from gradviz.rendering.labels import ItemText, item_face_text
from gradviz.rendering.page_identities import Identities
from gradviz.rendering.palette import role_of
from gradviz.rendering.renderer import Subject
from gradviz.rendering.subject_words import SubjectWords

_NO_WORDS = ItemText("")


@dataclass(frozen=True)
class Level:
    """A view in which boxes are open that lie in fewer than `depth` others.

    `texts` and `faces` are for `closed` and `opened` only: every other item has its words at its own level.
    """

    words: SubjectWords
    depth: int
    identities: Identities
    numbers: list[int | None]
    texts: list[ItemText]
    faces: list[Face]
    closed: list[Item]
    """Everything in exactly `depth` boxes."""
    opened: list[int | None]
    """The open boxes around that; at depth 0 the outermost level, None."""

    @property
    def view(self) -> View:
        return self.words.view

    def number(self, item: int) -> int:
        """The number of an item that is known to this level."""
        found = self.numbers[item]
        assert found is not None, "only leaves of other levels have no number"
        return found

    def number_of(self, box: int | None) -> int | None:
        """The number of a box; None for the outermost level."""
        return None if box is None else self.number(box)

    def is_around_opened(self, box: int | None) -> bool:
        """Whether a box holds some of `opened`, or may."""
        return self.depth > 0 and (-1 if box is None else self.identities.depths[self.number(box)]) == self.depth - 2


def level_of(subject: Subject, view: View, depth: int, identities: Identities) -> Level:
    """The words and faces of what a view shows at a depth."""
    words = SubjectWords(subject.capture, subject.graph, view)
    depths = view.depths()
    numbers = identities.of_view(view, depth)
    texts, faces = [_NO_WORDS] * len(view.items), []
    for item in view.items:
        is_new = depths[item.id] == depth or (item.is_open and depths[item.id] == depth - 1)
        if is_new:
            texts[item.id] = item_face_text(words, item)
            faces.append(face_of(subject.graph, item, texts[item.id]))
        else:
            faces.append(Face(role_of(item, subject.graph), 0.0, 0.0, (), is_open=item.is_open))
    closed = [item for item in view.items if depths[item.id] == depth]
    opened: list[int | None] = [item.id for item in view.items if item.is_open and depths[item.id] == depth - 1]
    return Level(words, depth, identities, numbers, texts, faces, closed, opened if depth else [None])
