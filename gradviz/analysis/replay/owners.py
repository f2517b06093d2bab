"""Which items of a picture have a node, and which of them does so in a repetition."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.graph.model import Graph
from gradviz.view.model import Item, View


class Owners:
    """The items that show a node."""

    def __init__(self, view: View, graph: Graph) -> None:
        self._leaves: dict[int, list[int]] = {}
        self._holders: dict[int, list[int]] = {}
        self._repetitions: dict[int, int] = {}
        for item in view.items:
            if item.is_open:
                continue
            is_leaf = item.node is not None and graph.nodes[item.node].is_leaf
            items_of = self._leaves if is_leaf else self._holders
            for node in item.nodes:
                items_of.setdefault(node, []).append(item.id)
            if not is_leaf:
                self._repetitions.update(_repetitions_in(item, graph))

    def of_leaf(self, node: int) -> list[int]:
        """Items that show only this leaf; empty for operations, and for leaves that are only inside of boxes."""
        return self._leaves.get(node, [])

    def of(self, node: int, current: int | None) -> int | None:
        """The item in which it is drawn: `current` if that is one of several."""
        holders = self._holders.get(node, ())
        return current if current in holders else holders[0] if holders else None

    def is_next_repetition(self, node: int, before: int) -> bool:
        """Whether `node` belongs to another repetition of its item than the node that ran before it."""
        return self._repetitions.get(node) != self._repetitions.get(before)


def _repetitions_in(item: Item, graph: Graph) -> Iterator[tuple[int, int]]:
    """The nodes that one repeated operation represents, each with the number of its repetition.

    Each repetition has one node with the operation's name, and the views that are merged into it.
    """
    if item.node is None:
        return
    name = graph.nodes[item.node].name
    count = sum(graph.nodes[node].name == name for node in item.nodes)
    period, rest = divmod(len(item.nodes), max(count, 1))
    if count > 1 and not rest:
        yield from ((node, index // period) for index, node in enumerate(sorted(item.nodes)))
