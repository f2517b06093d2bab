"""Puts leaves and constants beside each item that uses them, or inside the folded box that does.

A leaf that a few neighbours share is drawn once: this shows that its gradient is the sum of what they send. A leaf with
hundreds of links is unreadable, so it is drawn beside each use, and in every box that uses it. Parameters of a folded
box are part of it; inputs and data stay visible, because they say what the box works on.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.graph.model import Constant, Graph, Node
from gradviz.view.fold.plumbing import Connections
from gradviz.view.fold.weights import MAX_BESIDE
from gradviz.view.items.boxes import Draft, ItemDrafts


def constants_by_position(node: Node) -> dict[int, int]:
    """The constants of an operation by their position among its inputs; by their own order where that is unknown."""
    free = [position for position, edge in enumerate(node.edges) if edge is None]
    positions = free if len(free) == len(node.constants) else range(len(node.constants))
    return dict(zip(positions, node.constants, strict=True))


def is_empty(constant: Constant) -> bool:
    """Whether it is unnamed data without elements, such as an empty cache to which the first step appends."""
    return constant.kind == "data" and not constant.names and 0 in constant.tensor.shape


MAX_SHARING = 6
"""A leaf is linked to at most this many operations of one box; with more users it is drawn beside each."""


class LeafItems:
    """Finds or makes the item of a leaf or constant that an operation takes."""

    def __init__(self, graph: Graph, connections: Connections, drafted: ItemDrafts, *, show_constants: bool) -> None:
        self.graph, self.drafted, self.show_constants = graph, drafted, show_constants
        self._users = self._count_users(connections)
        self._shared: dict[tuple[str, int, int | None], int] = {}
        """By leaf or constant and the box of its users."""
        self._made: dict[tuple[str, int, int], int] = {}
        """By leaf or constant and the draft of its user."""
        self._at: dict[tuple[str, int, int], int] = {}
        """By the position among an operation's inputs, for later repetitions to share."""
        self._drawn: set[int] = set()
        self._used_later: set[int] = set()
        """Drafts that later repetitions take, too."""

    def leaf(self, node: int, position: int, leaf: int) -> int | None:
        """The draft of a leaf beside the operation's item; None where it is inside that item."""
        user = self.drafted.item_of[node]
        self._drawn.add(leaf)
        is_parameter = self.graph.nodes[leaf].kind == "parameter"
        if is_parameter:
            self._list_parameter(user, leaf)
        if self._is_inside("leaf", leaf, node, always=is_parameter):
            self.drafted.drafts[user].nodes.add(leaf)
            return None
        draft = self._beside("leaf", leaf, node, position)
        self.drafted.drafts[draft].nodes.add(leaf)
        return draft

    def constant(self, node: int, position: int, constant: int) -> int | None:
        """The draft of a constant beside the operation's item; None where it is inside that item."""
        user = self.drafted.item_of[node]
        is_data = self.graph.constants[constant].kind == "data"
        is_drawn = self.show_constants and not is_empty(self.graph.constants[constant])
        if not is_drawn or self._is_inside("constant", constant, node, always=not is_data):
            self.drafted.drafts[user].constants.add(constant)
            return None
        draft = self._beside("constant", constant, node, position)
        self.drafted.drafts[draft].constants.add(constant)
        return draft

    def only_first(self, what: str, given: int, node: int) -> int | None:
        """The draft of a leaf or constant that only the first repetition of a loop takes; None for others."""
        draft = self._made.get((what, given, self.drafted.item_of[node]))
        return None if draft in self._used_later else draft

    def leaf_of_root(self, leaf: int, root: int) -> int:
        """The draft of a leaf that is itself a root, drawn just before that root."""
        self._drawn.add(leaf)
        return self.drafted.new(Draft("node", node=leaf, nodes={leaf}), beside=root)

    def draft_unused_leaves(self) -> None:
        for node in self.graph.nodes:
            if node.is_leaf and node.id not in self._drawn:
                self.drafted.new(Draft("node", node=node.id, nodes={node.id}))

    def _is_inside(self, what: str, given: int, node: int, *, always: bool) -> bool:
        user = self.drafted.item_of[node]
        box = self.drafted.drafts[user]
        if box.kind != "box" or (what, given, user) in self._made:
            return False
        is_later = self.drafted.nesting.rank[node] >= box.first_stop
        return always or is_later or len(box.beside) >= MAX_BESIDE

    def _beside(self, what: str, given: int, node: int, position: int) -> int:
        user = self.drafted.item_of[node]
        found = self._made.get((what, given, user))
        if found is None and self.drafted.is_later[node]:
            found = self._at.get((what, user, position))
        if found is None:
            found = self._shared_or_new(what, given, user)
        self._made[what, given, user] = found
        if self.drafted.is_later[node]:
            self._used_later.add(found)
        self._at.setdefault((what, user, position), found)
        return found

    def _shared_or_new(self, what: str, given: int, user: int) -> int:
        key = (what, given, self.drafted.drafts[user].parent)
        if len(self._users[key]) > MAX_SHARING:
            return self._new(what, given, user)
        found = self._shared.get(key)
        if found is None:
            found = self._shared[key] = self._new(what, given, user)
        return found

    def _count_users(self, connections: Connections) -> dict[tuple[str, int, int | None], set[int]]:
        """The items that take each leaf or constant, by leaf or constant and the box of the items."""
        users: dict[tuple[str, int, int | None], set[int]] = {}
        for node in self.drafted.nesting.sequence:
            user = self.drafted.item_of[node]
            parent = self.drafted.drafts[user].parent
            for what, given in self._given_to(node, connections):
                users.setdefault((what, given, parent), set()).add(user)
        return users

    def _given_to(self, node: int, connections: Connections) -> Iterator[tuple[str, int]]:
        nodes = self.graph.nodes
        for edge in connections.inputs[node]:
            if edge is not None and nodes[edge.target].is_leaf:
                yield "leaf", edge.target
        for constant in nodes[node].constants:
            yield "constant", constant

    def _new(self, what: str, given: int, user: int) -> int:
        parent = self.drafted.drafts[user].parent
        is_leaf = what == "leaf"
        draft = Draft("node", parent, node=given) if is_leaf else Draft("constant", parent, constant=given)
        return self.drafted.new(draft, beside=user)

    def _list_parameter(self, user: int, leaf: int) -> None:
        drafts = self.drafted.drafts
        key: int | None = user if drafts[user].kind == "box" else drafts[user].parent
        while key is not None and leaf not in drafts[key].parameters:
            drafts[key].parameters.add(leaf)
            key = drafts[key].parent
