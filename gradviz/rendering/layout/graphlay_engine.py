"""Positions and routes for a view, from the layout engine graphlay. Only this file knows the engine.

Every open box is laid out as a separate problem, the innermost first, and is then a rectangle in the box around it
(`nested_layout`). Each problem stays small, the main column stays straight, and equal boxes are laid out once.

The engine has no limit on time: 500 wires into one node take it half a minute, a flat graph of 80,000 nodes takes all
memory. So its work is estimated first, from counts alone (never from a clock: the same view gives the same bytes on
every machine). A box that would cost too much gets a simpler layout and a note about it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from gradviz.collector import collector_paused
from gradviz.rendering.layout.box_problem import BoxProblem, BoxSolution, Wire, layers_of
from gradviz.rendering.layout.layered_fallback import lay_out_plainly
from gradviz.rendering.layout.nested_layout import NestedView
from gradviz.rendering.layout.row_stacking import stacked, without_added_wires
from gradviz.rendering.layout.shape import PageShape, Shape
from gradviz.rendering.layout.sibling_order import in_creation_order, is_in_creation_order, with_equal_siblings
from gradviz.rendering.layout.side_space import CLEARANCE, solve_with_side_space
from gradviz.rendering.layout.straightening import straightened
from gradviz.rendering.look.geometry import Direction, Layout, Point, Route, transposed
from gradviz.rendering.look.node_label import NodeLabel
from gradviz.view.model import View

MAX_CHILDREN = 1_500
MAX_DUMMIES = 12_000
MAX_COST_OF_BOX = 0.8
"""Estimated seconds, on the machine on which the estimate was calibrated."""
MAX_COST_OF_VIEW = 4.0

MAX_SLANT, MAX_SLANT_AT_END = 8.0, 0.5
MIN_STRETCH = 1.0
"""The engine bends wires by half a pixel, which is seen as a notch."""

ROW_GAP = 28.0
"""Between two rows of items."""
ROOMY_ROW_GAP = 48.0
"""The same where words stand between the rows."""
_SPACING = {"node_gap": 26.0, "dummy_gap": 16.0, "port_gap": 14.0, "isolated_gap": 26.0}
_OPTIONS: dict[str, object] = {
    "direction": "topbottom",
    "limits": {"max_nodes": MAX_CHILDREN + 500, "max_edges": 10_000, "max_dummies": MAX_DUMMIES},
}


def lay_out(
    view: View,
    node_labels: Sequence[NodeLabel],
    direction: Direction = "TB",
    shape: Shape = "tall",
    *,
    roomy_links: Collection[int] = (),
) -> Layout:
    """Position every item of `view`, each as large as its label, and route every link.

    Args:
        roomy_links: links with words that need space: the boxes through which they run get more space between rows.
    """
    with collector_paused():
        return _lay_out(view, NestedView(view, node_labels, direction), direction, shape, roomy_links)


def _lay_out(
    view: View, nested: NestedView, direction: Direction, shape: Shape, roomy_links: Collection[int]
) -> Layout:
    engine = LayoutEngine(roomy_boxes=nested.wiring.boxes_of(roomy_links))
    for box in nested.boxes_innermost_first():
        engine.lay_out(nested, box)
    if shape != "tall":
        PageShape(nested, partial(engine.lay_out, nested), shape).fold()
    layout = straightened(view, nested.layout())
    return transposed(layout) if direction == "LR" else layout


class LayoutEngine:
    """graphlay with a cache for equal problems and a limit on the estimated time."""

    def __init__(self, budget: float = MAX_COST_OF_VIEW, *, roomy_boxes: Collection[int | None] = frozenset()) -> None:
        """`budget` is in estimated seconds, for all boxes together; `roomy_boxes` get more space between rows."""
        self._roomy_boxes = roomy_boxes
        self._known: dict[tuple[BoxProblem, float], BoxSolution | None] = {}
        self._budget, self._spent = budget, 0.0

    def lay_out(self, nested: NestedView, box: int | None) -> None:
        """Position the contents of a box; if that would cost too much, with the simpler layout and a note."""
        problem = nested.problem_of(box)
        row_gap = ROOMY_ROW_GAP if box in self._roomy_boxes else ROW_GAP
        solution = self._solve(stacked(problem, nested.rows.get(box, 1)), row_gap)
        if solution is None:
            nested.note_simpler_layout(box)
            solution = lay_out_plainly(problem)
        nested.accept(box, without_added_wires(problem, solution))

    def _solve(self, problem: BoxProblem, row_gap: float) -> BoxSolution | None:
        """The engine's solution, or None if it would cost too much or the engine refuses."""
        key = problem, row_gap
        if key not in self._known:
            self._known[key] = self._solve_anew(problem, row_gap)
        return self._known[key]

    def _solve_anew(self, problem: BoxProblem, row_gap: float) -> BoxSolution | None:
        """The solution in which siblings are in order; they are made equally wide only if they are not without that."""
        ask = partial(self._ask, row_gap=row_gap)
        solution = solve_with_side_space(problem, ask)
        if solution is None:
            return None
        ordered, equal = in_creation_order(problem, solution), with_equal_siblings(problem)
        if is_in_creation_order(equal, ordered):
            return ordered
        solution = solve_with_side_space(equal, ask)
        return ordered if solution is None else in_creation_order(equal, solution)

    def _ask(self, problem: BoxProblem, *, row_gap: float) -> BoxSolution | None:
        cost = estimated_cost(problem)
        if cost > MAX_COST_OF_BOX or self._spent + cost > self._budget:
            return None
        self._spent += cost
        return _ask_graphlay(problem, {**_OPTIONS, "spacing": {**_SPACING, "layer_gap": row_gap}})


def estimated_cost(problem: BoxProblem) -> float:
    """The estimated seconds that graphlay needs; infinite if it must not be called.

    The cost depends on the number of wires side by side: about its power 3.5, summed over the gaps between layers. In
    small boxes, it also depends on the wires beyond the first of each block, and on the layers that wires pass.
    Calibrated on chains, residual chains, dense blocks, fans and random graphs of 20 to 1,500 nodes.
    """
    if len(problem.blocks) > MAX_CHILDREN or len(problem.wires) > 4 * MAX_CHILDREN:
        return float("inf")
    layer = layers_of(problem)
    abreast = _wires_abreast(problem.wires, layer)
    passed = sum(abreast) - len(problem.wires)
    if passed > MAX_DUMMIES:
        return float("inf")
    beside = passed + max(0, len(problem.wires) - len(problem.blocks))
    crowding = sum(math.pow(count, 3.5) for count in abreast)
    return 3e-4 + 3e-5 * len(problem.blocks) + 6e-5 * beside + 8e-9 * crowding


def _wires_abreast(wires: Sequence[Wire], layer: list[int]) -> list[int]:
    """How many wires cross each gap between two layers, by a running sum over their starts and ends."""
    change = [0] * (max(layer, default=0) + 2)
    for wire in wires:
        first, last = sorted((layer[wire.source], layer[wire.target]))
        change[first] += 1
        change[last] -= 1
    counts, current = [], 0
    for step in change:
        current += step
        counts.append(current)
    return counts


def _ask_graphlay(problem: BoxProblem, options: Mapping[str, object]) -> BoxSolution | None:
    try:
        import graphlay
    except ImportError:
        return None  # It is young, and may not load everywhere: the caller uses the simpler layout.
    ranks = {"entry": "first", "exit": "last"}
    nodes = [
        {
            "key": str(number),
            "shape": "box",
            "size": {"width": block.width, "height": block.height},
            "margin": {"cross_neg": _margin(block.left), "cross_pos": _margin(block.right)},
            "rank": ranks.get(block.border, "free"),
        }
        for number, block in enumerate(problem.blocks)
    ]
    edges = [_edge(wire) for wire in problem.wires]
    try:
        answer = graphlay.layout({"nodes": nodes, "edges": edges}, options=options)
    except graphlay.GraphlayError:
        return None  # A limit of graphlay: the caller uses the simpler layout.
    centers = tuple(Point(node["center"]["x"], node["center"]["y"]) for node in answer.nodes)
    routes = tuple(_squared([Point(point["x"], point["y"]) for point in edge["points"]]) for edge in answer.edges)
    return BoxSolution(centers, routes)


def _squared(points: Sequence[Point]) -> Route:
    """The route with right angles: the engine leaves some stretches slanted, most of them by a fraction of a pixel."""
    line = list(points[:1])
    for number, (x, y) in enumerate(points[1:], 2):
        # The last point touches a block, and stays there.
        limit = MAX_SLANT if number < len(points) else MAX_SLANT_AT_END
        across, down = abs(x - line[-1].x), abs(y - line[-1].y)
        if max(across, down) < MIN_STRETCH and number < len(points):
            continue
        if down < limit and down < across:
            y = line[-1].y
        elif across < limit and across < down:
            x = line[-1].x
        line.append(Point(x, y))
    return tuple(line)


def _margin(width: float) -> float:
    return width + CLEARANCE if width else 0.0


def _edge(wire: Wire) -> dict[str, object]:
    edge: dict[str, object] = {"source": wire.source, "target": wire.target, "weight": 1.0}
    for end, side, position in (("source", "bottom", wire.source_position), ("target", "top", wire.target_position)):
        if position is not None:
            edge[f"{end}_port"] = {"offset": {"side": side, "t": position}}
    return edge
