"""Numbers for items of several views of one graph: the same item has the same number in each view."""

from __future__ import annotations

from collections.abc import Hashable

from gradviz.graph.model import Graph
from gradviz.view.model import Item, View


class Identities:
    """Numbers the items of views, level by level. Each level has one more level of boxes open.

    A repeated box that shows all of its repetitions has a number of its own, because its content differs from that of
    the box while it shows only the first repetition.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._numbers: dict[Hashable, int] = {}
        self.depths: list[int] = []
        """For each number, how many boxes are around the item."""
        self.parents: list[int | None] = []
        """For each number, the number of the box around the item."""
        self.runs: dict[int, int] = {}
        """For boxes that show each repetition: the numbers of the boxes that show only the first."""
        self._begin = 0

    def begin_each(self) -> None:
        """Call this before the views in which a repeated box shows each of its repetitions: only its content is new."""
        self._begin = len(self.depths)

    def is_new(self, number: int | None) -> bool:
        """Whether earlier views have not shown an item; always true before `begin_each`."""
        return number is not None and number >= self._begin

    def of_view(self, view: View, depth: int) -> list[int | None]:
        """The number of every item; None for leaves in fewer boxes than `depth`: each view draws its own.

        A box is identified by its position among the boxes beside it, because these are the same in all views.
        """
        depths = view.depths()
        found: list[int | None] = []
        boxes_in: dict[int | None, int] = {}
        for item in view.items:
            parent = None if item.parent is None else found[item.parent]
            if item.kind == "box":
                rank = boxes_in[item.parent] = boxes_in.get(item.parent, -1) + 1
                key: Hashable = ("box", parent, rank)
            else:
                key = self._key(item, parent)
            if key is not None:
                number = self._known_or_new(key, parent, depths[item.id])
                found.append(self._showing_each(number) if item.each else number)
            else:
                is_shown = depths[item.id] == depth and (not self._begin or self.is_new(parent))
                found.append(self._new(parent, depth) if is_shown else None)
        return found

    def _known_or_new(self, key: Hashable, parent: int | None, depth: int) -> int:
        if key not in self._numbers:
            self._numbers[key] = self._new(parent, depth)
        return self._numbers[key]

    def _showing_each(self, run: int) -> int:
        number = self._known_or_new(("each", run), self.parents[run], self.depths[run])
        self.runs[number] = run
        return number

    def in_level_above(self, number: int, depth: int) -> int:
        """The item that shows another one if only boxes inside fewer than `depth` others are open: itself or its box.

        Args:
            number: of an item in the view with boxes open to `depth`.
        """
        parent = self.parents[number]
        return parent if self.depths[number] >= depth and parent is not None else number

    def _key(self, item: Item, parent: int | None) -> Hashable:
        """None for leaves and results of earlier repetitions: they are drawn again beside each item that uses them."""
        if item.kind == "root":
            return "root", item.root
        if item.kind == "refused":
            return "refused", item.refused
        if item.cut_edge is not None:
            # A cut-off item appears once in each box with a cut of the same origin.
            return item.kind, self._graph.cut_edges[item.cut_edge].origin, parent
        if item.kind == "node" and item.node is not None and not self._graph.nodes[item.node].is_leaf:
            return "node", item.node, parent
        return None

    def _new(self, parent: int | None, depth: int) -> int:
        self.depths.append(depth)
        self.parents.append(parent)
        return len(self.depths) - 1
