"""From the children of a box to a layout problem, and from its solution to the size of the box."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from gradviz.rendering.layout.box_problem import PORT_SIZE, Block, BoxProblem, BoxSolution, Wire
from gradviz.rendering.layout.leaf_layout import Cluster
from gradviz.rendering.layout.wires import End, Ends
from gradviz.rendering.look.geometry import Point, Route

MAX_TITLE_SHIFT = 150.0
"""How far contents may move aside so that no wire runs through the title."""
MAX_CENTERING = 1.15
"""A box may be widened by this factor so that its main wire enters in the middle."""
TITLE_SPACE = 30.0
"""Between the upper border and a wire that runs sideways below the title."""
TURN_SPACE = 12.0
"""Between the border and a wire that runs along it."""


class Margins(NamedTuple):
    """The space around the contents of a box, and the minimum size that its header needs."""

    left: float
    top: float
    right: float
    bottom: float
    min_width: float = 0.0
    least_height: float = 0.0
    title_width: float = 0.0
    """Width of the title at the upper left, which entering wires should not cross."""


@dataclass(frozen=True)
class Inside:
    """A solved box: sizes, and positions relative to its upper left corner."""

    width: float
    height: float
    corners: tuple[Point, ...]
    """Upper left corners of its clusters."""
    routes: tuple[Route, ...]
    entries: Mapping[int, float]
    """The x at which wires cross the upper border, by port."""
    exits: Mapping[int, float]

    @property
    def crossings(self) -> tuple[float, ...]:
        """The x at which wires cross the border; that of the main wire is first."""
        return (*self.entries.values(), *self.exits.values())


class BoxContents:
    """The clusters in a box and the wires between them. Blocks are numbered: clusters, then entries, then exits."""

    def __init__(self, clusters: list[Cluster], ends: list[Ends], inside: Mapping[int | None, Inside]) -> None:
        """`inside` has the solved boxes among the children."""
        self.clusters = clusters
        self.entries = _border_ports(source for source, _ in ends)
        self.exits = _border_ports(target for _, target in ends)
        self._ends = ends
        self._inside = inside
        numbers = {End(None, port): len(clusters) + number for number, port in enumerate(self.entries)}
        self._source_numbers = numbers
        first_exit = len(clusters) + len(self.entries)
        self._target_numbers = {End(None, port): first_exit + number for number, port in enumerate(self.exits)}
        self._item_numbers = {cluster.rects[0][0]: number for number, cluster in enumerate(clusters)}

    @cached_property
    def problem(self) -> BoxProblem:
        """The layout problem of this box."""
        blocks = [_block(cluster) for cluster in self.clusters]
        blocks += [Block(PORT_SIZE, PORT_SIZE, "entry")] * len(self.entries)
        blocks += [Block(PORT_SIZE, PORT_SIZE, "exit")] * len(self.exits)
        pairs = [
            (self._number(source, self._source_numbers), self._number(target, self._target_numbers))
            for source, target in self._ends
        ]
        leave = self._positions([pair[0] for pair in pairs], [pair[1] for pair in pairs], entering=False)
        arrive = self._positions([pair[1] for pair in pairs], [pair[0] for pair in pairs], entering=True)
        wires = (
            Wire(*pair, *positions) for pair, positions in zip(pairs, zip(leave, arrive, strict=True), strict=True)
        )
        return BoxProblem(tuple(blocks), tuple(wires))

    def _number(self, end: End, borders: Mapping[End, int]) -> int:
        return borders[end] if end.item is None else self._item_numbers[end.item]

    def _positions(self, near: list[int], far: list[int], *, entering: bool) -> list[float | None]:
        """Where each wire touches its near block, or None if the layout engine may choose."""
        positions: list[float | None] = [None] * len(near)
        spread: dict[int, list[int]] = {}
        for wire, (block, ends) in enumerate(zip(near, self._ends, strict=True)):
            end = ends[1] if entering else ends[0]
            if end.item is None:
                positions[wire] = 0.0  # All wires of a port cross the border at one point.
            elif end.port is not None:
                positions[wire] = self._crossing(end.item, end.port, block, entering=entering)
            elif self.clusters[block].routes:
                spread.setdefault(block, []).append(wire)
        for block, wires in spread.items():
            # The nearest neighbour belongs to the main column, so it gets the middle. Longer wires run at the right.
            wires.sort(key=lambda wire: (abs(far[wire] - block), wire))
            for position, wire in enumerate(wires):
                positions[wire] = round(self.clusters[block].reach * position / max(1.5, len(wires) - 1), 6)
        return positions

    def _crossing(self, box: int, port: int, block: int, *, entering: bool) -> float:
        """Where a wire crosses the border of an open box among the children."""
        inside, cluster = self._inside[box], self.clusters[block]
        x = cluster.user.x + (inside.entries if entering else inside.exits)[port]
        return round(2 * x / cluster.width - 1, 6)


def _block(cluster: Cluster) -> Block:
    sides = max(0.0, -cluster.left), max(0.0, cluster.right - cluster.width)
    return Block(round(cluster.width, 2), round(cluster.height, 2), "", *(round(side, 2) for side in sides))


def _border_ports(ends: Iterable[End]) -> list[int]:
    """The ports at the border of the box itself, in the order of their first use."""
    return list(dict.fromkeys(end.port for end in ends if end.item is None and end.port is not None))


def enclosed(contents: BoxContents, solution: BoxSolution, margins: Margins) -> Inside:
    """The box around a solution. Wires that cross its border are drawn up to the border."""
    count, entry_count = len(contents.clusters), len(contents.entries)
    entry_xs = [center.x for center in solution.centers[count : count + entry_count]]
    exit_xs = [center.x for center in solution.centers[count + entry_count :]]
    left, right = _horizontal_extent(contents, solution, margins, entry_xs, exit_xs)
    title = _title_span(left, right, entry_xs, margins) or (left, right)
    top, bottom = _vertical_extent(contents, solution, margins, title)
    corners = tuple(
        Point(center.x - cluster.width / 2 - left, center.y - cluster.height / 2 - top)
        for center, cluster in zip(solution.centers, contents.clusters, strict=False)
    )
    routes = tuple(
        _to_both_ends(
            contents,
            wire,
            [Point(point.x - left, point.y - top) for point in route],
            corners,
            bottom - top,
            solution.upward,
        )
        for wire, route in zip(contents.problem.wires, solution.routes, strict=True)
    )
    entries = {port: x - left for port, x in zip(contents.entries, entry_xs, strict=True)}
    exits = {port: x - left for port, x in zip(contents.exits, exit_xs, strict=True)}
    return Inside(right - left, bottom - top, corners, routes, entries, exits)


def _to_both_ends(
    contents: BoxContents,
    wire: Wire,
    points: list[Point],
    corners: Sequence[Point],
    height: float,
    upward: frozenset[int],
) -> Route:
    """Lengthen a wire to the item within its cluster, and from a port's block to the box's border.

    Wires at other blocks stay unchanged: there the engine may end them at the left or right side.
    """
    clusters = contents.clusters
    if wire.source >= len(clusters):
        points[0] = Point(points[0].x, 0.0)
    elif clusters[wire.source].routes:
        user = clusters[wire.source].user
        points[0] = Point(points[0].x, corners[wire.source].y + (user.y if wire.source in upward else user.bottom))
    if wire.target >= len(clusters):
        points[-1] = Point(points[-1].x, height)
    elif clusters[wire.target].routes:
        user = clusters[wire.target].user
        points[-1] = Point(points[-1].x, corners[wire.target].y + (user.bottom if wire.target in upward else user.y))
    return tuple(points)


def _horizontal_extent(
    contents: BoxContents, solution: BoxSolution, margins: Margins, entries: Sequence[float], exits: Sequence[float]
) -> tuple[float, float]:
    pairs = list(zip(solution.centers, contents.clusters, strict=False))
    turns = [point.x for route in solution.routes for point in route]
    left = min([center.x - cluster.width / 2 + cluster.left for center, cluster in pairs] + turns, default=0.0)
    right = max([center.x - cluster.width / 2 + cluster.right for center, cluster in pairs] + turns, default=0.0)
    left, right = left - margins.left, right + margins.right
    main = (list(entries) or list(exits))[:1]
    if entries and margins.title_width:
        covered = left + margins.title_width - min(entries)
        left -= covered if 0 < covered <= MAX_TITLE_SHIFT else 0.0
    missing = margins.min_width - (right - left)
    if missing > 0:
        left, right = left - missing / 2, right + missing / 2
    if main:
        half = max(main[0] - left, right - main[0])
        if 2 * half <= MAX_CENTERING * (right - left):
            left, right = main[0] - half, main[0] + half
    return _with_room_for_title(left, right, entries, margins)


def _with_room_for_title(left: float, right: float, entries: Sequence[float], margins: Margins) -> tuple[float, float]:
    """The extent of a box, made wider where no part of its upper border without a wire is as wide as its title."""
    if _title_span(left, right, entries, margins) is not None or not entries:
        return left, right
    at_left = margins.title_width - (min(entries) - left)
    at_right = margins.title_width - (right - max(entries))
    return (left - at_left, right) if at_left <= at_right else (left, right + at_right)


def _title_span(left: float, right: float, entries: Sequence[float], margins: Margins) -> tuple[float, float] | None:
    """The first part of the upper border that is wide enough for the title; None if there is none."""
    borders = [left, *sorted(entries), right]
    spans = ((start, start + margins.title_width) for start in borders[:-1])
    return next((span for span, end in zip(spans, borders[1:], strict=True) if span[1] <= end), None)


def _level_stretches(routes: Iterable[Route]) -> Iterator[tuple[float, float, float]]:
    """The y, the left and the right end of every horizontal stretch."""
    for route in routes:
        for start, end in pairwise(route):
            if start.y == end.y and start.x != end.x:
                yield start.y, min(start.x, end.x), max(start.x, end.x)


def _vertical_extent(
    contents: BoxContents, solution: BoxSolution, margins: Margins, title: tuple[float, float]
) -> tuple[float, float]:
    pairs = list(zip(solution.centers, contents.clusters, strict=False))
    turns = [point.y for route in solution.routes for point in route[1:-1]]
    tops = [center.y - cluster.height / 2 - margins.top for center, cluster in pairs]
    bottoms = [center.y + cluster.height / 2 + margins.bottom for center, cluster in pairs]
    top = min(tops + [turn - TURN_SPACE for turn in turns], default=0.0)
    first_block = top + margins.top
    across = [
        y
        for y, left, right in _level_stretches(solution.routes)
        if margins.title_width and y < first_block and left < title[1] and right > title[0]
    ]
    top = min([top] + [y - TITLE_SPACE for y in across])
    bottom = max(bottoms + [turn + TURN_SPACE for turn in turns], default=0.0)
    return top, max(bottom, top + margins.least_height)
