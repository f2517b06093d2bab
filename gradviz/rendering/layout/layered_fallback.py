"""A simple layered layout for boxes that are too large for the layout engine. It always takes near-linear time.

Layers are assigned by longest path. The order within a layer is the mean position of the neighbours above (one sweep
down, one up). Wide layers are broken into rows. A wire to the next row runs between the rows, a longer one in a lane at
the right.
"""

from __future__ import annotations

from heapq import heappop, heappush

from gradviz.rendering.layout.box_problem import BoxProblem, BoxSolution, Wire, layers_of
from gradviz.rendering.look.geometry import Point, Route

ROW_GAP = 36.0
BLOCK_GAP = 22.0
LANE_GAP = 9.0
MAX_ROW = 40
"""Blocks in a row; a wider layer continues in the row below."""
MAX_LANES = 80
"""With more long wires than this, wires share lanes: a wider picture shows nothing more."""


def lay_out_plainly(problem: BoxProblem) -> BoxSolution:
    """Positions and routes for `problem` in near-linear time."""
    rows = _rows(problem)
    row_of = [0] * len(problem.blocks)
    for number, row in enumerate(rows):
        for block in row:
            row_of[block] = number
    centers, edges = _positions(problem, rows)
    right = max(
        (center.x + block.width / 2 + block.right for center, block in zip(centers, problem.blocks, strict=True)),
        default=0.0,
    )
    lanes = _lanes(problem.wires, row_of)
    routes = tuple(
        _route(problem, wire, centers, edges[row_of[wire.source]][1], edges[row_of[wire.target]][0], lane, right)
        for wire, lane in zip(problem.wires, lanes, strict=True)
    )
    return BoxSolution(tuple(centers), routes)


def _rows(problem: BoxProblem) -> list[list[int]]:
    layer = layers_of(problem)
    last = max(layer, default=0)
    for number, block in enumerate(problem.blocks):
        if block.border:
            layer[number] = -1 if block.border == "entry" else last + 1
    layers: dict[int, list[int]] = {}
    for number, level in enumerate(layer):
        layers.setdefault(level, []).append(number)
    ordered = _without_crossings(problem, [layers[level] for level in sorted(layers)])
    return [row[start : start + MAX_ROW] for row in ordered for start in range(0, len(row), MAX_ROW)]


def _without_crossings(problem: BoxProblem, layers: list[list[int]]) -> list[list[int]]:
    above: list[list[int]] = [[] for _ in problem.blocks]
    below: list[list[int]] = [[] for _ in problem.blocks]
    for wire in problem.wires:
        above[wire.target].append(wire.source)
        below[wire.source].append(wire.target)
    position_of = [0.0] * len(problem.blocks)
    for neighbours, sweep in ((above, layers), (below, layers[::-1])):
        for row in sweep:
            _sort_row(row, neighbours, position_of)
    return layers


def _sort_row(row: list[int], neighbours: list[list[int]], position_of: list[float]) -> None:
    """Order `row` by the mean position of its neighbours, and store the new positions, centred about 0."""
    means = {
        block: sum(position_of[other] for other in neighbours[block]) / len(neighbours[block])
        if neighbours[block]
        else position_of[block]
        for block in row
    }
    row.sort(key=lambda block: (means[block], block))
    for position, block in enumerate(row):
        position_of[block] = position - (len(row) - 1) / 2


def _positions(problem: BoxProblem, rows: list[list[int]]) -> tuple[list[Point], list[tuple[float, float]]]:
    """Centres of all blocks, and the upper and lower edge of each row."""
    centers = [Point(0, 0)] * len(problem.blocks)
    edges = []
    top = 0.0
    for row in rows:
        height = max(problem.blocks[block].height for block in row)
        members = [problem.blocks[block] for block in row]
        x = -(sum(block.left + block.width + block.right + BLOCK_GAP for block in members) - BLOCK_GAP) / 2
        for number, block in zip(row, members, strict=True):
            centers[number] = Point(x + block.left + block.width / 2, top + height / 2)
            x += block.left + block.width + block.right + BLOCK_GAP
        edges.append((top, top + height))
        top += height + ROW_GAP
    return centers, edges


def _lanes(wires: tuple[Wire, ...], row_of: list[int]) -> list[int | None]:
    """A lane for each wire that does not simply go to the next row.

    All such wires of one source share a lane, because they carry the same data. A free lane is used again.
    """
    is_long = [row_of[wire.target] != row_of[wire.source] + 1 for wire in wires]
    spans: dict[int, tuple[int, int]] = {}
    for wire, long in zip(wires, is_long, strict=True):
        if long:
            start, end = spans.get(wire.source, (row_of[wire.source], row_of[wire.source]))
            spans[wire.source] = min(start, row_of[wire.target]), max(end, row_of[wire.target])
    lane_of = _assigned(spans)
    return [lane_of[wire.source] % MAX_LANES if long else None for wire, long in zip(wires, is_long, strict=True)]


def _assigned(spans: dict[int, tuple[int, int]]) -> dict[int, int]:
    """The innermost lane that is free over each span of rows."""
    lane_of: dict[int, int] = {}
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    for source in sorted(spans, key=lambda source: (spans[source], source)):
        start, end = spans[source]
        while busy and busy[0][0] < start:
            heappush(free, heappop(busy)[1])
        lane_of[source] = heappop(free) if free else len(busy)
        heappush(busy, (end, lane_of[source]))
    return lane_of


def _route(
    problem: BoxProblem,
    wire: Wire,
    centers: list[Point],
    source_edge: float,
    target_edge: float,
    lane: int | None,
    right: float,
) -> Route:
    source, target = problem.blocks[wire.source], problem.blocks[wire.target]
    start_x = centers[wire.source].x + (wire.source_position or 0.0) * source.width / 2
    end_x = centers[wire.target].x + (wire.target_position or 0.0) * target.width / 2
    start = Point(start_x, centers[wire.source].y + source.height / 2)
    end = Point(end_x, centers[wire.target].y - target.height / 2)
    if lane is None and start_x == end_x:
        return (start, end)
    if lane is None:
        middle = (source_edge + target_edge) / 2
        return (start, Point(start_x, middle), Point(end_x, middle), end)
    lane_x = right + LANE_GAP * (lane + 2)
    leave, arrive = source_edge + ROW_GAP * 0.35, target_edge - ROW_GAP * 0.35
    corners = (start_x, leave), (lane_x, leave), (lane_x, arrive), (end_x, arrive)
    return (start, *(Point(x, y) for x, y in corners), end)
