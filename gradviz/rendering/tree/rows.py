"""The order of the items in a tree, and the lines before each row.

A straight chain runs down one column, as in ``git log --graph``, so depth costs no width; only a branch is indented.
At an operation with several sources, the longest path to the leaves keeps the column. An operation with several users
is shown below the last of them, and the other users refer to it. A leaf, with nothing below it, is shown beside each
user.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gradviz.graph.model import Graph
from gradviz.view.model import CUT_KINDS, Item, View

CUT_LINE = "┄"
"""To a node that gets no gradient because of a cut."""
RowKind = Literal["item", "reference", "heading", "gap"]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the tree."""

    kind: RowKind
    lines: str = ""
    """The lines drawn before it."""
    item: int | None = None
    """For a heading, the box that begins; None for the outermost level."""
    above: str = ""
    """The lines between it and the row above."""
    is_aside: bool = False
    """True for a leaf or a reference: it belongs to the last row for which this is False."""
    is_above: bool = False
    """For a reference: the item is shown further up."""
    is_return: bool = False
    """For a heading: the box has begun earlier."""
    number: int = 0
    """The same for all rows of an item that has several; else 0."""
    hidden: int = 0
    """For a gap: how many rows are left out."""


def walked_rows(graph: Graph, view: View) -> list[Row]:
    """A row for every operation and folded box, and for every use of a leaf or reference, from the roots on."""
    return _Walk(graph, view).rows


@dataclass(slots=True)
class _Turn:
    """An item to be shown next: `lines` are drawn before it, `below` before the following rows in its column."""

    item: int
    lines: str
    below: str
    above: str = ""


class _Walk:
    def __init__(self, graph: Graph, view: View) -> None:
        self.graph, self.view = graph, view
        self.rows: list[Row] = []
        self._sources: list[list[int]] = [[] for _ in view.items]
        self._users: list[list[int]] = [[] for _ in view.items]
        for link in view.links:
            self._sources[link.target].append(link.source)
            self._users[link.source].append(link.target)
        self._heights = self._longest_paths_up()
        self._shown = bytearray(len(view.items))
        for starts in self._starts():
            self._show_from(starts)

    def _is_leaf(self, item: Item) -> bool:
        """Whether nothing can follow it: a leaf of the graph that was not made by a cut, a constant, ..."""
        is_without_node = item.kind in ("constant", "carried", "cut_off")
        is_leaf = item.node is not None and self.graph.nodes[item.node].is_leaf
        return is_without_node or (is_leaf and not self._sources[item.id])

    def _starts(self) -> Iterator[list[int]]:
        """The roots; then items that no root reaches, such as those that only the next repetition of a loop uses."""
        yield [item.id for item in self.view.items if item.kind in ("root", "refused")]
        left = [item.id for item in self.view.items if not item.is_open]
        yield [item for item in left if not self._shown[item] and not self._users[item]]
        for item in left:
            if not self._shown[item]:
                yield [item]

    def _longest_paths_up(self) -> list[int]:
        """For each item, the length of the longest path to it from an item without sources."""
        heights = [0] * len(self.view.items)
        waiting = [len(sources) for sources in self._sources]
        ready = [item.id for item in self.view.items if not waiting[item.id]]
        for item in ready:  # grows while it is walked
            for user in self._users[item]:
                heights[user] = max(heights[user], heights[item] + 1)
                waiting[user] -= 1
                if not waiting[user]:
                    ready.append(user)
        return heights

    def _show_from(self, starts: list[int]) -> None:
        waiting = self._uses_below(starts)
        turns = [_Turn(item, "", "") for item in reversed(starts)]
        while turns:
            turn = turns.pop()
            self._shown[turn.item] = 1
            self.rows.append(Row("item", turn.lines, turn.item, turn.above))
            turns.extend(self._show_sources(turn, waiting))

    def _uses_below(self, starts: list[int]) -> Counter[int]:
        """For all items that can be reached from `starts`, how often the walk reaches them."""
        uses: Counter[int] = Counter()
        stack = list(starts)
        while stack:
            for source in self._sources[stack.pop()]:
                uses[source] += 1
                if uses[source] == 1 and not self._shown[source]:
                    stack.append(source)
        return uses

    def _show_sources(self, turn: _Turn, waiting: Counter[int]) -> list[_Turn]:
        """Show leaves and references at once; return the items that follow, the next one last."""
        at_once: list[int] = []
        later: list[int] = []
        for source in self._sources[turn.item]:
            waiting[source] -= 1
            is_next = not waiting[source] and not self._shown[source]
            (later if is_next and not self._is_leaf(self.view.items[source]) else at_once).append(source)
        later.sort(key=self._heights.__getitem__)
        below = turn.below
        for index, source in enumerate(at_once):
            is_last = index == len(at_once) - 1 and not later
            self._show_aside(source, below, self._branch("└" if is_last else "├", source))
        turns = [_Turn(later[-1], below, below, below + "│ ")] if later else []
        for item in reversed(later[:-1]):
            turns.append(_Turn(item, below + self._branch("├", item), f"{below}│ ", f"{below}│ "))
        return turns

    def _branch(self, corner: str, item: int) -> str:
        """The line that leads to an item from the column beside it."""
        return corner + (CUT_LINE if self.view.items[item].kind in CUT_KINDS else "─")

    def _show_aside(self, source: int, below: str, branch: str) -> None:
        is_above = bool(self._shown[source])
        is_leaf = self._is_leaf(self.view.items[source])
        if is_leaf:
            self._shown[source] = 1
        kind: RowKind = "item" if is_leaf else "reference"
        self.rows.append(Row(kind, below + branch, source, below + "│ ", is_aside=True, is_above=is_above))
