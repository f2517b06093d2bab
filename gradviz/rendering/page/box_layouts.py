"""Lays out every box of a graph once, with closed boxes inside it, for pages that open and close boxes.

It uses the views of the folding, one for each level: there, the boxes at one depth have only closed boxes inside. So a
page shows a closed box with the same words and the same leaves beside it as the still picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from msgspec.structs import replace

from gradviz.rendering.layout.graphlay_engine import LayoutEngine
from gradviz.rendering.layout.leaf_layout import Cluster
from gradviz.rendering.layout.nested_layout import NestedView
from gradviz.rendering.layout.wires import End, Ends
from gradviz.rendering.look.geometry import Point, tidy
from gradviz.rendering.look.link_looks import largest_norm, link_look
from gradviz.rendering.look.node_label import BADGE_GAP, NodeLabel, header_room, line_width
from gradviz.rendering.page.document import PageBox, PageChip, PageCluster, PageFlow, PagePosition, PageWire
from gradviz.rendering.page.items import chip_on, cut, line_on
from gradviz.rendering.page.level import Level
from gradviz.rendering.words.gradient_words import LinkGradients
from gradviz.rendering.words.link_words import LinkWords
from gradviz.view.model import Link

LONGEST_LABEL = 60
"""Characters beside a wire; there is no space for more."""
BUDGET = 8.0
"""Estimated seconds for the layout of all boxes together."""
MAX_SIDEWAYS = 12_000
"""Pages of more items have one direction only: a second layout would make them half as large again."""


@dataclass(frozen=True, slots=True)
class _WireEnds:
    """The two ends of a wire in a box, by their numbers."""

    box: int | None
    source: int
    target: int | None
    enters: bool


class PageBoxes:
    """Collects the boxes of a graph, level by level."""

    def __init__(self) -> None:
        self._engine = LayoutEngine(BUDGET)
        self._boxes: list[PageBox] = []
        self._sideways: list[PageBox] = []
        self._sideways_engine = LayoutEngine(BUDGET)
        self._items = 0
        self._flows: dict[PageFlow, int] = {}
        self._ports: dict[_WireEnds, dict[int, None]] = {}
        self._notes: list[str] = []
        self._shown_by: dict[int, dict[int, int]] = {}
        """For boxes that show the first of several repetitions: the member of the box that shows a node."""

    @property
    def flows(self) -> tuple[PageFlow, ...]:
        """The words of all wires; many wires have the same."""
        return tuple(self._flows)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about boxes with the simpler layout."""
        return tuple(self._notes)

    def add(self, level: Level) -> None:
        """Lay out the boxes with only closed boxes inside, and note where data crosses the borders of open boxes."""
        nested = NestedView(level.view, level.node_labels, "TB")
        words = _WordsOfWires(level, nested, self._flows)
        stand_ins = [self._stand_ins(level, box) for box in level.opened]
        for box, own in zip(level.opened, stand_ins, strict=True):
            self._engine.lay_out(nested, box)
            self._boxes.append(_page_box(level, nested, box, words, own))
        self._notes.extend(nested.notes())
        self._add_sideways(level, words, stand_ins)
        for box, wires in nested.wiring.wires.items():
            if level.is_around_opened(box):
                for ends in wires:
                    self._note_port(level, box, ends)

    def _add_sideways(self, level: Level, words: _WordsOfWires, stand_ins: list[dict[int, tuple[int, ...]]]) -> None:
        """Lay out the same boxes from left to right, unless there are too many items."""
        self._items += len(level.closed)
        if self._items > MAX_SIDEWAYS:
            self._sideways.clear()
            return
        nested = NestedView(level.view, level.node_labels, "LR")
        for box, own in zip(level.opened, stand_ins, strict=True):
            self._sideways_engine.lay_out(nested, box)
            self._sideways.append(_page_box(level, nested, box, words, own))

    def _stand_ins(self, level: Level, box: int | None) -> dict[int, tuple[int, ...]]:
        """See `PageBox.stands_for`."""
        if box is None or not (level.view.items[box].repeat > 1 or level.view.items[box].each):
            return {}
        item, number = level.view.items[box], level.number(box)
        members = {member.id: member for member in level.closed_in.get(box, ())}
        if item.repeat > 1:
            self._shown_by[number] = {
                node: level.number(member.id) for member in members.values() for node in member.nodes
            }
        shown_by = self._shown_by.get(level.identities.runs[number], {}) if item.each else {}
        found: dict[int, dict[int, None]] = {}
        for link in level.view.links if shown_by else ():
            shown = None if link.node is None else shown_by.get(link.node)
            if shown is not None and link.source in members and link.target not in members:
                found.setdefault(level.number(link.source), {})[shown] = None
        return {number: tuple(stand_ins) for number, stand_ins in found.items()}

    def _note_port(self, level: Level, box: int | None, ends: Ends) -> None:
        source, target = ends
        port = source.port if source.port is not None else target.port
        if port is None or (number := level.numbers[port]) is None:
            return
        from_where = number if source.item is None else level.numbers[source.item]
        if from_where is None:
            return
        ends_of_wire = _WireEnds(
            level.number_of(box),
            level.identities.in_level_above(from_where, level.depth),
            None if target.item is None else level.numbers[target.item],
            enters=source.item is None,
        )
        self._ports.setdefault(ends_of_wire, {})[number] = None

    def finished(self, *, sideways: bool = False) -> tuple[PageBox, ...]:
        """All boxes, the outermost level first; `sideways` from left to right, with x and y exchanged."""
        return tuple(
            replace(box, wires=tuple(replace(wire, ports=self._ports_of(box.item, wire)) for wire in box.wires))
            for box in (self._sideways if sideways else self._boxes)
        )

    def _ports_of(self, box: int | None, wire: PageWire) -> tuple[int, ...]:
        return tuple(self._ports.get(_WireEnds(box, wire.source, wire.target, wire.enters), ()))


class _WordsOfWires:
    """The words of each wire, and of the route of each leaf: those of the first link that runs along it."""

    def __init__(self, level: Level, nested: NestedView, flows: dict[PageFlow, int]) -> None:
        """`flows` are the known words with their numbers; new ones are added."""
        self._flows = flows
        self._view, self._gradients = level.view, LinkGradients(level.facts)
        self._texts = LinkWords(level.facts, self._gradients, level.texts)
        self._links: dict[tuple[int | None, int], Link] = {}
        self._links_of_leaves: dict[int, Link] = {}
        for link, path in zip(level.view.links, nested.wiring.paths, strict=True):
            for step in path:
                self._links.setdefault(step, link)
            if not path:
                self._links_of_leaves.setdefault(link.source, link)

    def of_wire(self, box: int | None, wire: int) -> int:
        return self._of(self._links[box, wire])

    def of_leaf(self, leaf: int) -> int:
        return self._of(self._links_of_leaves[leaf])

    def _of(self, link: Link) -> int:
        """The number of the words of a link, without its ends: the page adds those."""
        state = link_look(self._view, self._gradients, link).state
        text = self._texts.of(link)
        words, norm = tuple(map(cut, text.tooltip[1:])), None if state else largest_norm(self._gradients, link)
        flow = PageFlow(words, state, norm, text.label if len(text.label) <= LONGEST_LABEL else "")
        return self._flows.setdefault(flow, len(self._flows))


def _page_box(
    level: Level, nested: NestedView, box: int | None, words: _WordsOfWires, stands_for: dict[int, tuple[int, ...]]
) -> PageBox:
    inside = nested.inside(box)
    node_label = None if box is None else level.node_labels[box]
    clusters = zip(nested.clusters_in(box), inside.corners, strict=True)
    return PageBox(
        width=round(inside.width, 1),
        height=round(inside.height, 1),
        clusters=tuple(_page_cluster(level, cluster, corner, words) for cluster, corner in clusters),
        wires=tuple(_wires(level, nested, box, words)),
        entries={level.number(port): round(x, 1) for port, x in inside.entries.items()},
        exits={level.number(port): round(x, 1) for port, x in inside.exits.items()},
        item=level.number_of(box),
        header=None if node_label is None else line_on(node_label.lines[0], "t", 0.0, node_label.lines[0].y),
        header_width=0.0 if node_label is None else round(header_room(node_label), 1),
        chip=None if node_label is None else _chip_of_header(node_label),
        stands_for=stands_for,
    )


def _chip_of_header(node_label: NodeLabel) -> PageChip | None:
    if not node_label.badge:
        return None
    title = node_label.lines[0]
    return chip_on(node_label.badge, line_width(title) + BADGE_GAP, title.y)


def _page_cluster(level: Level, cluster: Cluster, corner: Point, words: _WordsOfWires) -> PageCluster:
    routes = dict(cluster.routes)
    positions = []
    for item, rect in cluster.rects:
        position = PagePosition(level.number(item), round(rect.x, 1), round(rect.y, 1))
        positions.append(
            replace(position, route=_flat(routes[item]), flow=words.of_leaf(item)) if item in routes else position
        )
    x, y, left, right, height = (round(length, 1) for length in (*corner, cluster.left, cluster.right, cluster.height))
    return PageCluster(x, y, left, right, height, tuple(positions))


def _wires(level: Level, nested: NestedView, box: int | None, words: _WordsOfWires) -> Iterator[PageWire]:
    routes = nested.inside(box).routes
    for (source, target), number in nested.wiring.wires.get(box, {}).items():
        yield PageWire(
            level.number(_only(source)),
            None if target.item is None else level.number(target.item),
            _flat(routes[number]),
            enters=source.item is None,
            flow=words.of_wire(box, number),
            is_quiet=level.node_labels[_only(source)].role == "constant",
        )


def _only(end: End) -> int:
    """The item at an end, or the source of the data that crosses the border there."""
    found = end.port if end.item is None else end.item
    assert found is not None, "a wire ends at an item or at a port"
    return found


def _flat(route: Iterable[Point]) -> tuple[float, ...]:
    return tuple(chain.from_iterable(tidy(route)))
