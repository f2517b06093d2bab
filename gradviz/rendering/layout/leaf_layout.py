"""Leaves drawn beside the item that uses them, and boxes centred on their main wire, each as one rectangle.

A weight beside its layer costs no height and leaves the main column to the data. If all inputs of an operation are
leaves, its data is in a row above it, as the start of the flow, and its parameters are beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, sqrt

from gradviz.rendering.look.geometry import Point, Rect, Route
from gradviz.rendering.look.node_label import NodeLabel
from gradviz.view.model import View

SIDE_GAP = 18.0
STACK_GAP = 6.0
ROW_GAP = 28.0
LEAF_GAP = 16.0
EDGE_SPACE = 12.0
"""Between a corner of the user and the nearest wire."""
MAX_BESIDE = 600
"""With more leaves at one user, the layout engine positions them above it."""
MAX_ABOVE = 5
"""More would make a wide row, so they are beside the user."""
MAX_IN_ONE_STACK = 12
BUS_SPACE = 30.0
"""Between two stacks at the same side, for the wire that joins their leaves."""
MAX_OFFSET = 200.0
"""A box may bend the main column if its wires would make its rectangle wider by this much at each side."""

Size = tuple[float, float]


@dataclass(frozen=True)
class AttachedLeaves:
    """The leaves that are drawn with one item."""

    beside: tuple[int, ...] = ()
    above: tuple[int, ...] = ()

    @property
    def all(self) -> tuple[int, ...]:
        return self.beside + self.above


@dataclass(frozen=True)
class Cluster:
    """An item with its attached leaves as one rectangle, symmetric about the main wire: so that wire is straight.

    Leaves beside the item may extend beyond the rectangle at either side.
    """

    width: float
    height: float
    rects: tuple[tuple[int, Rect], ...]
    """Items and their rectangles, relative to the upper left corner of the cluster; the user is first."""
    routes: tuple[tuple[int, Route], ...] = ()
    """The route from each leaf to the user."""

    @property
    def user(self) -> Rect:
        return self.rects[0][1]

    @cached_property
    def left(self) -> float:
        """The left edge of the leftmost item."""
        return min(rect.x for _, rect in self.rects)

    @cached_property
    def right(self) -> float:
        return max(rect.right for _, rect in self.rects)

    @property
    def reach(self) -> float:
        """The fraction of half the cluster's width over which wires may touch the user itself."""
        return max(0.0, self.user.width / 2 - EDGE_SPACE) / (self.width / 2)


def attached_leaves_of(view: View, node_labels: Sequence[NodeLabel]) -> dict[int, AttachedLeaves]:
    """The leaves that are drawn with an item, by that item's id."""
    uses: dict[int, list[int]] = {}
    feeds: dict[int, list[int]] = {}
    for link in view.links:
        uses.setdefault(link.source, []).append(link.target)
        feeds.setdefault(link.target, []).append(link.source)
    found: dict[int, AttachedLeaves] = {}
    for user, sources in feeds.items():
        parent = view.items[user].parent
        leaves = [
            leaf
            for leaf in dict.fromkeys(sources)
            if node_labels[leaf].is_leaf
            and leaf not in feeds
            and view.items[leaf].parent == parent
            and set(uses[leaf]) == {user}
        ]
        if leaves and not node_labels[user].is_open:
            found[user] = _arranged(leaves, node_labels, flows=len(set(sources)) > len(leaves))
    return {user: attached_leaves for user, attached_leaves in found.items() if attached_leaves.all}


def _arranged(leaves: list[int], node_labels: Sequence[NodeLabel], *, flows: bool) -> AttachedLeaves:
    """All leaves beside it if other data flows in; otherwise parameters beside it and data above it."""
    beside = tuple(leaf for leaf in leaves if flows or node_labels[leaf].role == "parameter")
    if len(beside) == len(leaves) <= MAX_ABOVE and not flows:
        beside = ()
    above = tuple(leaf for leaf in leaves if leaf not in set(beside))
    if len(above) > MAX_ABOVE:
        beside, above = tuple(leaves), ()
    return AttachedLeaves(beside, above) if len(beside) <= MAX_BESIDE else AttachedLeaves((), above)


def alone(item: int, size: Size, crossings: Sequence[float] = ()) -> Cluster:
    """An item without attached leaves. A box is symmetric about the first of the wires that cross its border.

    Args:
        crossings: the x of each crossing, from its left end; all are within the rectangle.
    """
    width, height = size
    middle = crossings[0] if crossings else width / 2
    half = max([min(middle, width - middle), *(abs(other - middle) + EDGE_SPACE for other in crossings[1:])])
    if half > width / 2 + MAX_OFFSET:
        middle = half = width / 2
    return Cluster(2 * half, height, ((item, Rect(half - middle, 0, width, height)),))


def cluster_of(user: int, attached_leaves: AttachedLeaves, sizes: Sequence[Size]) -> Cluster:
    """An item with its attached leaves: half of those beside it at each side, the other leaves above it."""
    width, height = sizes[user]
    split = (len(attached_leaves.beside) + 1) // 2
    sides = attached_leaves.beside[:split], attached_leaves.beside[split:]
    row_width = sum(sizes[leaf][0] + LEAF_GAP for leaf in attached_leaves.above) - LEAF_GAP
    row_height = max((sizes[leaf][1] + ROW_GAP for leaf in attached_leaves.above), default=0.0)
    full_height = max(height, *(_side_height(side, sizes) for side in sides))
    box = Rect(0, row_height + (full_height - height) / 2, width, height)
    positioned = [
        *_stack(sides[0], sizes, box, at_left=True),
        *_stack(sides[1], sizes, box, at_left=False),
        *_row(attached_leaves.above, sizes, box, (width - row_width) / 2, row_height - ROW_GAP),
    ]
    rects = ((user, box), *((leaf, rect) for leaf, rect, _ in positioned))
    routes = tuple((leaf, route) for leaf, _, route in positioned)
    return Cluster(width, row_height + full_height, rects, routes)


PositionedLeaf = tuple[int, Rect, Route]


def _stack(leaves: Sequence[int], sizes: Sequence[Size], user: Rect, *, at_left: bool) -> list[PositionedLeaf]:
    """The leaves at one side of the user: one stack, or several of which the first is nearest to the user."""
    stacks = _stacks(leaves, sizes)
    if len(stacks) == 1:
        return _one_stack(leaves, sizes, user, at_left=at_left)
    positioned: list[PositionedLeaf] = []
    edge = user.x - BUS_SPACE if at_left else user.right + BUS_SPACE
    for stack in stacks:
        width = max(sizes[leaf][0] for leaf in stack)
        upper = (len(stack) + 1) // 2
        bus_x = edge + BUS_SPACE / 2 if at_left else edge - BUS_SPACE / 2
        # The wire from stacks further out passes between the two halves.
        tops = [
            *_tops(stack[:upper], sizes, user.center.y - BUS_SPACE / 2 - _stack_height(stack[:upper], sizes)),
            *_tops(stack[upper:], sizes, user.center.y + BUS_SPACE / 2),
        ]
        for leaf, top in zip(stack, tops, strict=True):
            own_width, height = sizes[leaf]
            rect = Rect(edge - own_width if at_left else edge, top, own_width, height)
            start = Point(rect.right if at_left else rect.x, rect.center.y)
            end = Point(user.x if at_left else user.right, user.center.y)
            positioned.append((leaf, rect, (start, Point(bus_x, start.y), Point(bus_x, end.y), end)))
        edge += -(width + BUS_SPACE) if at_left else width + BUS_SPACE
    return positioned


def _stacks(leaves: Sequence[int], sizes: Sequence[Size]) -> list[Sequence[int]]:
    """Leaves in as many stacks as make both sides together about as wide as high."""
    if len(leaves) <= MAX_IN_ONE_STACK:
        return [leaves]
    width = max(sizes[leaf][0] for leaf in leaves) + BUS_SPACE
    count = max(1, round(sqrt(_stack_height(leaves, sizes) / (2 * width))))
    length = ceil(len(leaves) / count)
    return [leaves[start : start + length] for start in range(0, len(leaves), length)]


def _side_height(leaves: Sequence[int], sizes: Sequence[Size]) -> float:
    stacks = _stacks(leaves, sizes)
    if len(stacks) == 1:
        return _stack_height(leaves, sizes)
    halves = [half for stack in stacks for half in (stack[: (len(stack) + 1) // 2], stack[(len(stack) + 1) // 2 :])]
    return BUS_SPACE + 2 * max(_stack_height(half, sizes) for half in halves)


def _tops(leaves: Sequence[int], sizes: Sequence[Size], y: float) -> Iterator[float]:
    for leaf in leaves:
        yield y
        y += sizes[leaf][1] + STACK_GAP


def _one_stack(leaves: Sequence[int], sizes: Sequence[Size], user: Rect, *, at_left: bool) -> list[PositionedLeaf]:
    tops = _tops(leaves, sizes, user.center.y - _stack_height(leaves, sizes) / 2)
    positioned: list[PositionedLeaf] = []
    for leaf, y in zip(leaves, tops, strict=True):
        width, height = sizes[leaf]
        rect = Rect(user.x - SIDE_GAP - width if at_left else user.right + SIDE_GAP, y, width, height)
        positioned.append((leaf, rect, _sideways(rect, user, at_left=at_left)))
    return positioned


def _stack_height(side: Iterable[int], sizes: Sequence[Size]) -> float:
    heights = [sizes[leaf][1] for leaf in side]
    return sum(heights) + STACK_GAP * max(0, len(heights) - 1)


def _sideways(leaf: Rect, user: Rect, *, at_left: bool) -> Route:
    start = Point(leaf.right if at_left else leaf.x, leaf.center.y)
    end_x = user.x if at_left else user.right
    margin = min(10.0, user.height / 3)
    end = Point(end_x, min(max(start.y, user.y + margin), user.bottom - margin))
    middle = (start.x + end.x) / 2
    return (start, Point(middle, start.y), Point(middle, end.y), end)


def _row(leaves: Sequence[int], sizes: Sequence[Size], user: Rect, x: float, height: float) -> list[PositionedLeaf]:
    """Leaves side by side above the user. Each wire is straight if the user is wide enough."""
    reach = user.width / 2 - EDGE_SPACE
    widest = max(len(leaves) - 1, 1) / 2
    positioned: list[PositionedLeaf] = []
    for number, leaf in enumerate(leaves):
        width, leaf_height = sizes[leaf]
        rect = Rect(x, height - leaf_height, width, leaf_height)
        end_x = user.center.x + (number - (len(leaves) - 1) / 2) / widest * reach
        if len(leaves) <= 2:
            end_x = min(max(rect.center.x, user.center.x - reach), user.center.x + reach)
        over = rect.x + EDGE_SPACE <= end_x <= rect.right - EDGE_SPACE
        start, end = Point(end_x if over else rect.center.x, rect.bottom), Point(end_x, user.y)
        middle = (start.y + end.y) / 2
        positioned.append((leaf, rect, (start, Point(start.x, middle), Point(end.x, middle), end)))
        x += width + LEAF_GAP
    return positioned
