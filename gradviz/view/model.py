"""What is shown of a graph once it is folded: the one structure between the graph and every format.

A `View` is a forest of `Item`s joined by `Link`s. An *open* box contains items; a *folded* box stands for all the
nodes inside it. Links follow the **data**: from what was computed first towards the loss, against the direction of
`Edge`. Renderers draw a view and decide nothing about what is in it, so that two formats cannot disagree.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

ItemKind = Literal["node", "constant", "root", "refused", "box", "carried", "cut", "cut_off"]


class Item(Struct, frozen=True, omit_defaults=True, rename={"cut_edges": "ghosts"}):
    """One thing that is drawn.

    ========== =============================================================================
    kind       stands for
    ========== =============================================================================
    node       the autograd node `node` (an operation or a leaf), with merged plumbing in `nodes`
    constant   the input `constant` of a graph that needs no gradient
    root       the tensor ``graph.roots[root]``
    refused    the tensor ``graph.refused[refused]``, from which backward could not begin
    box        a module call (`scope`); without one, a repeated run of members, or
               neighbours drawn as one because there are too many of them
    carried    in a repeated box, what `source` gave in an earlier repetition: links between
               repetitions would run in a circle, so it stands beside its user instead
    cut        the call that cuts off a gradient, where its `cut_edges` among ``graph.cut_edges``
               would have gone on; its links are such edges
    cut_off    the tensors behind it that get none
    ========== =============================================================================

    A leaf or a constant is one item in each box that uses it; with many users there, one beside each of them.
    """

    id: int
    kind: ItemKind
    parent: int | None = None
    """The open box in which it lies."""
    nodes: tuple[int, ...] = ()
    """Ids of all autograd nodes that it stands for, in creation order; for a repeated box, of all repetitions.
    Empty for an open box of a single call: its children list theirs."""
    node: int | None = None
    constant: int | None = None
    root: int | None = None
    scope: int | None = None
    """Module call of a box; for a repeated box, that of the first repetition."""
    is_open: bool = False
    each: int = 0
    """Of an open box that shows all its repetitions, each for itself: how many these are. It is not repeated then."""
    repeat: int = 1
    """How many alike, one after the other, this box stands for (its contents show the first)."""
    sizes_differ: bool = False
    """Its repetitions are alike but for the sizes of their tensors."""
    last_scope: int | None = None
    """Module call of the last repetition."""
    constants: tuple[int, ...] = ()
    parameters: tuple[int, ...] = ()
    """Ids of the distinct parameter leaves inside a box."""
    source: int | None = None
    """Of something carried, the item that made it."""
    repetitions_back: int = 1
    """How many repetitions ago that was; 0 where it is not the same for all."""
    cut_edges: tuple[int, ...] = ()
    """Of a cut and what it cuts off, indices in `Graph.cut_edges`: all that end there in what is shown."""
    refused: int | None = None
    """Of a refused root, its index in `Graph.refused`."""
    instead: int | None = None
    """The item from which the first repetition takes its data instead, where it is drawn and for nothing else."""

    @property
    def cut_edge(self) -> int | None:
        """The first of `cut_edges`: all of them are of one cut."""
        return self.cut_edges[0] if self.cut_edges else None


CUT_KINDS: frozenset[ItemKind] = frozenset({"cut", "cut_off"})
"""Items that no node stands behind: links at them are where a gradient would have gone on."""


class Link(Struct, frozen=True, omit_defaults=True):
    """Data that flows from one item to another; several edges between the same two items are one link."""

    source: int
    target: int
    node: int | None = None
    """The autograd node whose output flows here (of the first edge, where there are several): the last of the merged
    plumbing on the way, where there is any."""
    output_nr: int = 0
    edge_count: int = 1


class View(Struct, frozen=True):
    """What is drawn, and in one plain sentence each, what was left out to keep it readable."""

    items: tuple[Item, ...]
    """``items[i].id == i``; a box stands before its children, siblings in creation order."""
    links: tuple[Link, ...]
    notes: tuple[str, ...] = ()

    def children(self) -> dict[int | None, list[Item]]:
        """Items by the box in which they lie; None is the outermost level."""
        by_parent: dict[int | None, list[Item]] = {}
        for item in self.items:
            by_parent.setdefault(item.parent, []).append(item)
        return by_parent

    def depths(self) -> list[int]:
        """For each item the number of boxes around it."""
        depths: list[int] = []
        for item in self.items:
            depths.append(0 if item.parent is None else depths[item.parent] + 1)
        return depths
