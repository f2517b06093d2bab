"""What is shown of a folded graph: the data structure that every output format renders.

A `View` is a forest of `Item`s joined by `Link`s. An *open* box contains items; a *folded* box represents all nodes
inside it. Links follow the **data**: from what was computed first towards the loss, against the direction of `Edge`.
Renderers draw a view and decide nothing about its contents, so two formats cannot disagree.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

ItemKind = Literal["node", "constant", "root", "refused", "box", "carried", "cut", "cut_off"]


class Item(Struct, frozen=True, omit_defaults=True, rename={"cut_edges": "ghosts"}):
    """One thing that is drawn.

    ========== =============================================================================
    kind       represents
    ========== =============================================================================
    node       the autograd node `node` (an operation or a leaf), with merged plumbing in `nodes`
    constant   the input `constant` of a graph that needs no gradient
    root       the tensor ``graph.roots[root]``
    refused    the tensor ``graph.refused[refused]``, from which backward could not begin
    box        a module call (`scope`); without one, a repeated run of members, or
               neighbours drawn as one because there are too many of them
    carried    in a repeated box, what `source` gave in an earlier repetition: links between
               repetitions would make a cycle, so it is drawn beside its user instead
    cut        the call that cuts off a gradient; `cut_edges` are indices in
               ``graph.cut_edges``, which its links show
    cut_off    the tensors behind it that get no gradient
    ========== =============================================================================

    A leaf or a constant is one item in each box that uses it; with many users there, one beside each of them.
    """

    id: int
    kind: ItemKind
    parent: int | None = None
    """The open box around it."""
    nodes: tuple[int, ...] = ()
    """Ids of all autograd nodes that it represents, in creation order; for a repeated box, of all repetitions. Empty
    for an open box of a single call: its children list theirs."""
    node: int | None = None
    constant: int | None = None
    root: int | None = None
    scope: int | None = None
    """Module call of a box; for a repeated box, that of the first repetition."""
    is_open: bool = False
    each: int = 0
    """For an open box that shows all its repetitions singly, their number. It has no `repeat` then."""
    repeat: int = 1
    """How many alike repetitions the box represents (its contents show the first)."""
    sizes_differ: bool = False
    """Its repetitions differ only in the sizes of their tensors."""
    last_scope: int | None = None
    """Module call of the last repetition."""
    constants: tuple[int, ...] = ()
    parameters: tuple[int, ...] = ()
    """Ids of the distinct parameter leaves inside a box."""
    source: int | None = None
    """For a carried item, the item that made the value."""
    repetitions_back: int = 1
    """How many repetitions ago that was; 0 where it differs."""
    cut_edges: tuple[int, ...] = ()
    """For a cut and the tensors it cuts off, indices in `Graph.cut_edges`: all that end there in this view."""
    refused: int | None = None
    """For a refused root, its index in `Graph.refused`."""
    instead: int | None = None
    """The item from which the first repetition takes its data instead, if it is drawn and only for that."""

    @property
    def cut_edge(self) -> int | None:
        """The first of `cut_edges`: all of them belong to one cut."""
        return self.cut_edges[0] if self.cut_edges else None


CUT_KINDS: frozenset[ItemKind] = frozenset({"cut", "cut_off"})
"""Items without a node: links at them show where a gradient would have gone on."""


class Link(Struct, frozen=True, omit_defaults=True):
    """Data that flows from one item to another; several edges between the same two items are one link."""

    source: int
    target: int
    node: int | None = None
    """The autograd node whose output flows here (of the first edge, where there are several); with merged plumbing, the
    last merged node."""
    output_nr: int = 0
    edge_count: int = 1


class View(Struct, frozen=True):
    """What is drawn, with one sentence for each thing that was left out to keep it readable."""

    items: tuple[Item, ...]
    """``items[i].id == i``; a box precedes its children, siblings are in creation order."""
    links: tuple[Link, ...]
    notes: tuple[str, ...] = ()

    def children(self) -> dict[int | None, list[Item]]:
        """Items by the box around them; None is the outermost level."""
        by_parent: dict[int | None, list[Item]] = {}
        for item in self.items:
            by_parent.setdefault(item.parent, []).append(item)
        return by_parent

    def depths(self) -> list[int]:
        """For each item, the number of boxes around it."""
        depths: list[int] = []
        for item in self.items:
            depths.append(0 if item.parent is None else depths[item.parent] + 1)
        return depths
