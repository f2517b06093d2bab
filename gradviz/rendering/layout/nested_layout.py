"""Combines the layouts of single boxes: sizes from the inside out, positions from the outside in.

Everything here runs from top to bottom. For a picture from left to right, the caller exchanges x and y at the end;
this module then only exchanges widths and heights and reserves space for headers on the other side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradviz.graph.number_words import counted
from gradviz.rendering.layout.box_contents import BoxContents, Inside, Margins, enclosed
from gradviz.rendering.layout.box_problem import BoxProblem, BoxSolution
from gradviz.rendering.layout.columns import ColumnFolding, Fold
from gradviz.rendering.layout.leaf_layout import Cluster, alone, attached_leaves_of, cluster_of
from gradviz.rendering.layout.row_stacking import widest_layer
from gradviz.rendering.layout.wires import Wiring
from gradviz.rendering.look.geometry import Direction, Layout, Point, Rect, Route, tidy
from gradviz.rendering.look.node_label import HEADER_HEIGHT, SHEETS_DEPTH, NodeLabel
from gradviz.view.model import View

PADDING = 16.0
MAX_NOTES = 3


class NestedView:
    """A view while it is laid out box by box."""

    def __init__(self, view: View, node_labels: Sequence[NodeLabel], direction: Direction) -> None:
        self._view = view
        self._node_labels = node_labels
        self.is_sideways = direction == "LR"
        self._sizes = [
            (node_label.height, node_label.width) if self.is_sideways else (node_label.width, node_label.height)
            for node_label in node_labels
        ]
        self._attached_leaves = attached_leaves_of(view, node_labels)
        self._beside = {leaf for attached_leaves in self._attached_leaves.values() for leaf in attached_leaves.all}
        self._children = {
            box: [item.id for item in items if item.id not in self._beside] for box, items in view.children().items()
        }
        self.wiring = Wiring(view, skipped=self._beside)
        self._contents: dict[int | None, BoxContents] = {}
        self._inside: dict[int | None, Inside] = {}
        self._foldings: dict[int | None, ColumnFolding] = {}
        self.folds: dict[int | None, Fold] = {}
        """How a box is folded; straight where nothing is set."""
        self.rows: dict[int | None, int] = {}
        """How many rows the widest layer of a box is broken into; 1 where nothing is set."""
        self._notes: dict[int | None, str] = {}
        """By box: one may be laid out several times."""

    def boxes_innermost_first(self) -> Iterator[int | None]:
        """Open boxes, each after everything inside it. None, the outermost level, is last."""
        yield from (item.id for item in reversed(self._view.items) if item.is_open)
        yield None

    def note_simpler_layout(self, box: int | None) -> None:
        """Add a note that `box` was too large for the layout engine."""
        title = "The outermost level" if box is None else f"Box {self._node_labels[box].lines[0].text}"
        children, wires = len(self._children.get(box, ())), len(self.wiring.wires.get(box, ()))
        size = f"{counted(children, 'child', 'children')}, {counted(wires, 'link')}"
        self._notes[box] = f"{title} ({size}) is drawn with a simpler layout."

    def problem_of(self, box: int | None) -> BoxProblem:
        """The layout problem of `box`. Everything inside it must be solved already."""
        clusters = [self._cluster(child) for child in self._children.get(box, ())]
        contents = BoxContents(clusters, list(self.wiring.wires.get(box, ())), self._inside)
        self._contents[box] = contents
        return contents.problem

    def _cluster(self, item: int) -> Cluster:
        if item in self._attached_leaves:
            return cluster_of(item, self._attached_leaves[item], self._sizes)
        inside = self._inside.get(item)
        return alone(item, self._sizes[item], inside.crossings if inside else ())

    def accept(self, box: int | None, solution: BoxSolution) -> None:
        """Store the positions inside `box`, folded into its columns, and size it to hold them."""
        self._foldings[box] = ColumnFolding(self._contents[box].problem, solution)
        inside = self.folded(box, self.folds.get(box, Fold())) or self._enclosed(box, solution)
        self._inside[box] = inside
        if box is not None:
            self._sizes[box] = (inside.width, inside.height)

    def folded(self, box: int | None, fold: Fold) -> Inside | None:
        """The layout inside `box` if it were folded in this way; None if it cannot be."""
        solution = self._foldings[box].folded(fold)
        if solution is None or any(self._has_a_top(box, block) for block in solution.upward):
            return None
        return self._enclosed(box, solution)

    def cut_wires(self, box: int | None, fold: Fold) -> int:
        """How many wires beyond the first are cut where columns end."""
        return sum(cut.lanes - 1 for cut in self._foldings[box].cuts_of(fold) or ())

    def _has_a_top(self, box: int | None, block: int) -> bool:
        """Whether wires must enter a block from above: an open box, or an item with leaves above it."""
        clusters = self._contents[box].clusters
        if block >= len(clusters):
            return False
        (item, user), *leaves = clusters[block].rects
        return self._view.items[item].is_open or any(rect.bottom <= user.y for _, rect in leaves)

    def _enclosed(self, box: int | None, solution: BoxSolution) -> Inside:
        margins = Margins(0, 0, 0, 0) if box is None else self._margins(box)
        return enclosed(self._contents[box], solution, margins)

    def open_boxes(self) -> Iterator[int | None]:
        """The outermost level and all open boxes, each before everything inside it."""
        yield None
        yield from (item.id for item in self._view.items if item.is_open)

    def with_boxes_around(self, box: int | None) -> Iterator[int | None]:
        """A box and all boxes around it, the innermost first; the outermost level is last."""
        while box is not None:
            yield box
            box = self._view.items[box].parent
        yield None

    def _margins(self, box: int) -> Margins:
        """The space around the contents of an open box, and what its header needs."""
        node_label = self._node_labels[box]
        sheets = SHEETS_DEPTH if node_label.sheets else 0.0
        header = HEADER_HEIGHT + 8
        if self.is_sideways:
            return Margins(header, PADDING, PADDING + sheets, PADDING, least_height=node_label.width)
        return Margins(
            PADDING, header, PADDING, PADDING + sheets, min_width=node_label.width, title_width=node_label.width
        )

    def widest_row(self, box: int | None) -> int:
        """How many items are side by side in the widest layer of a box."""
        return len(widest_layer(self._contents[box].problem))

    def clusters_in(self, box: int | None) -> tuple[Cluster, ...]:
        """The clusters in `box`, in the order of its `corners`."""
        return tuple(self._contents[box].clusters)

    def inside(self, box: int | None) -> Inside:
        """The layout inside `box`, after `accept`."""
        return self._inside[box]

    def layout(self) -> Layout:
        """The finished layout, after every box is accepted."""
        origins: dict[int | None, Point] = {None: Point(0, 0)}
        boxes = [Rect(0, 0, 0, 0)] * len(self._view.items)
        beside_routes: dict[int, Route] = {}
        for box in [None, *(item.id for item in self._view.items if item.is_open)]:
            if box is not None:
                origins[box] = Point(boxes[box].x, boxes[box].y)
            for cluster, corner in zip(self._contents[box].clusters, self._inside[box].corners, strict=True):
                origin = Point(origins[box].x + corner.x, origins[box].y + corner.y)
                for item, rect in cluster.rects:
                    width, height = self._sizes[item]
                    boxes[item] = Rect(
                        round(origin.x + rect.x, 1), round(origin.y + rect.y, 1), round(width, 1), round(height, 1)
                    )
                for leaf, route in cluster.routes:
                    beside_routes[leaf] = tidy(_moved(route, origin))
        outermost = self._inside[None]
        routes = tuple(self._routes(origins, beside_routes))
        return Layout(round(outermost.width, 1), round(outermost.height, 1), tuple(boxes), routes, self.notes())

    def notes(self) -> tuple[str, ...]:
        notes = tuple(self._notes.values())
        if len(notes) <= MAX_NOTES:
            return notes
        return (*notes[:MAX_NOTES], f"So are {len(notes) - MAX_NOTES:,} more boxes.")

    def _routes(self, origins: dict[int | None, Point], beside: dict[int, Route]) -> Iterator[Route]:
        for link, path in zip(self._view.links, self.wiring.paths, strict=True):
            if link.source in beside:
                yield beside[link.source]
            else:
                steps = (_moved(self._inside[box].routes[wire], origins[box]) for box, wire in path)
                yield tidy(point for step in steps for point in step)


def _moved(route: Route, by: Point) -> Route:
    return tuple(Point(point.x + by.x, point.y + by.y) for point in route)
