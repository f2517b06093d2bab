"""The order in which a tree shows the items of a view, and the lines that it draws before each.

A straight chain runs down one column, as in ``git log --graph``, so that depth costs no width; only a branch is set
in. At an operation with several sources the longest way to the leaves keeps the column. An item that several others
use is shown below the last of them; the others refer to it by number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from gradviz.graph.model import Graph
from gradviz.graph.view import Item, View

RowKind = Literal["item", "reference", "heading"]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the tree. A heading's item is the box that begins; None for the outermost level."""

    lines: str
    """What is drawn before it."""
    kind: RowKind
    item: int | None
    is_above: bool = False
    """For a reference: the item was shown further up, below another root."""


@dataclass(slots=True)
class _Turn:
    """An item whose turn comes: `lines` go before it, `below` before what follows it in its column."""

    item: int
    lines: str
    below: str
    hangs_from: str = ""
    """Before a heading that separates it from the row above."""


@dataclass
class TreeRows:
    """The rows of a view, and the numbers of the items that are referred to."""

    graph: Graph
    view: View
    rows: list[Row] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    _box: int | None = None

    def __post_init__(self) -> None:
        items = self.view.items
        self._sources: list[list[int]] = [[] for _ in items]
        self._users: list[list[int]] = [[] for _ in items]
        for link in self.view.links:
            self._sources[link.target].append(link.source)
            self._users[link.source].append(link.target)
        self._heights = self._longest_ways_up()
        self._shown = bytearray(len(items))
        for starts in self._starts():
            self._show_from(starts)

    def is_leaf(self, item: Item) -> bool:
        """Whether nothing can follow it: a leaf of the graph, a constant, or what an earlier repetition gave."""
        return item.kind in ("constant", "carried") or (item.node is not None and self.graph.nodes[item.node].is_leaf)

    def _starts(self) -> Iterator[list[int]]:
        """The roots; then whatever no root reaches, as what only the next repetition of a loop uses."""
        yield [item.id for item in self.view.items if item.kind == "root"]
        left = [item.id for item in self.view.items if not item.is_open]
        yield [item for item in left if not self._shown[item] and not self._users[item]]
        for item in left:
            if not self._shown[item]:
                yield [item]

    def _longest_ways_up(self) -> list[int]:
        """For each item the length of the longest way to it from an item without sources."""
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
            self._show(turn)
            turns.extend(self._show_sources(turn, waiting))

    def _uses_below(self, starts: list[int]) -> Counter[int]:
        """For everything that `starts` reach, how often it will be come upon."""
        uses: Counter[int] = Counter()
        stack = list(starts)
        while stack:
            for source in self._sources[stack.pop()]:
                uses[source] += 1
                if uses[source] == 1 and not self._shown[source]:
                    stack.append(source)
        return uses

    def _show(self, turn: _Turn) -> None:
        box = self.view.items[turn.item].parent
        if box != self._box:
            self.rows.append(Row(turn.hangs_from, "heading", box))
            self._box = box
        self._shown[turn.item] = 1
        self.rows.append(Row(turn.lines, "item", turn.item))

    def _show_sources(self, turn: _Turn, waiting: Counter[int]) -> list[_Turn]:
        """Show leaves and references at once; return what follows in its own time, the next one last."""
        at_once: list[int] = []
        later: list[int] = []
        for source in self._sources[turn.item]:
            waiting[source] -= 1
            is_next = not waiting[source] and not self._shown[source]
            (later if is_next and not self.is_leaf(self.view.items[source]) else at_once).append(source)
        later.sort(key=self._heights.__getitem__)
        for place, source in enumerate(at_once):
            is_last = place == len(at_once) - 1 and not later
            self._show_aside(source, turn.below + ("└─" if is_last else "├─"), is_new=not waiting[source])
        below = turn.below
        turns = [_Turn(later[-1], below, below, below + "│ ")] if later else []
        turns.extend(_Turn(item, f"{below}├─", f"{below}│ ", f"{below}│ ") for item in reversed(later[:-1]))
        return turns

    def _show_aside(self, source: int, lines: str, *, is_new: bool) -> None:
        if is_new and not self._shown[source]:
            self._shown[source] = 1
            self.rows.append(Row(lines, "item", source))
        else:
            self.numbers.setdefault(source, len(self.numbers) + 1)
            self.rows.append(Row(lines, "reference", source, is_above=bool(self._shown[source])))
