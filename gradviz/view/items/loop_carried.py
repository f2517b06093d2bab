"""Shows what a repeated box takes from its own earlier repetitions, without drawing a cycle.

The body of a loop is drawn once, so a link from one repetition to the next would lead back to its start. It is left
out, and a small item beside its user names what comes from the repetition before.

A plain stack, such as the blocks of a transformer, needs none: one link enters it and one leaves it, and everybody
understands that each block takes the result of the one before.
"""

from __future__ import annotations

from dataclasses import dataclass

from gradviz.graph.model import Edge, Graph
from gradviz.view.fold.plumbing import Connections
from gradviz.view.items.boxes import Draft, ItemDrafts, Step
from gradviz.view.items.leaf_items import LeafItems, constants_by_position

Slot = tuple[int, int]
"""An operation of the first repetition and the position among its inputs."""


@dataclass(slots=True)
class _Carried:
    """What one slot takes from earlier repetitions."""

    source: int
    target: int
    box: int
    repetitions: int
    """How many repetitions ago it was made; 0 where that differs."""
    arriving: Edge


class LoopCarried:
    """Collects the links between repetitions, then makes the items that replace them."""

    def __init__(self, graph: Graph, connections: Connections, drafted: ItemDrafts, leaf_items: LeafItems) -> None:
        self.graph, self.connections, self.drafted, self.leaf_items = graph, connections, drafted, leaf_items
        self._slots: dict[Slot, _Carried] = {}

    def note(self, step: Step, node: int, position: int, source: int, arriving: Edge | None) -> None:
        """Record a link that is not drawn: the input `position` of `node` comes from an earlier repetition."""
        slot = self.drafted.shown_as[node], position
        known = self._slots.get(slot)
        if known is None:
            if arriving is not None:
                target = self.drafted.item_of[node]
                self._slots[slot] = _Carried(source, target, step.box, step.repetitions, arriving)
        elif known.repetitions != step.repetitions and known.box == step.box:
            known.repetitions = 0

    def make_items(self) -> dict[tuple[int, int], Edge]:
        """Make an item beside each user; returns, for each item and its user, the edge along which the data comes."""
        made: dict[tuple[int, int, int], int] = {}
        edges: dict[tuple[int, int], Edge] = {}
        plain = self._plain_stacks()
        for slot, carried in self._slots.items():
            if carried.box in plain:
                continue
            key = carried.source, carried.target, carried.repetitions
            if key not in made:
                made[key] = self._new(slot, carried)
                edges[made[key], carried.target] = carried.arriving
        return edges

    def _plain_stacks(self) -> set[int]:
        """Boxes in which every repetition takes one thing from the one before, and the first takes it from outside."""
        sources: dict[int, set[int]] = {}
        others: set[int] = set()
        for slot, carried in self._slots.items():
            sources.setdefault(carried.box, set()).add(carried.source)
            if carried.repetitions != 1 or self._operation_outside(slot, carried.box) is None:
                others.add(carried.box)
        return {box for box, found in sources.items() if len(found) == 1} - others

    def _operation_outside(self, slot: Slot, box: int) -> int | None:
        """The operation outside the box from which the first repetition takes its data; None if there is none.

        The first repetition may take it inside where the order of inputs differs: ``sum()`` adds the first to 0, from
        the left.
        """
        edge = self._edge_into(slot)
        if edge is None or self.graph.nodes[edge.target].is_leaf:
            return None
        return None if self.drafted.is_repeated_in(box, edge.target) else edge.target

    def _edge_into(self, slot: Slot) -> Edge | None:
        node, position = slot
        edges = self.connections.inputs[node]
        return edges[position] if position < len(edges) else None

    def _new(self, slot: Slot, carried: _Carried) -> int:
        draft = Draft(
            "carried",
            self.drafted.drafts[carried.target].parent,
            source=carried.source,
            repetitions_back=carried.repetitions,
            instead=self._instead(slot, carried.box),
        )
        return self.drafted.new(draft, beside=carried.target)

    def _instead(self, slot: Slot, box: int) -> int | None:
        """The item that the first repetition takes instead: a leaf, data, or an operation outside the box."""
        edge = self._edge_into(slot)
        node, position = slot
        if edge is None:
            constant = constants_by_position(self.graph.nodes[node]).get(position)
            return None if constant is None else self.leaf_items.only_first("constant", constant, node)
        if self.graph.nodes[edge.target].is_leaf:
            return self.leaf_items.only_first("leaf", edge.target, node)
        outside = self._operation_outside(slot, box)
        return None if outside is None else self.drafted.item_of[outside]
