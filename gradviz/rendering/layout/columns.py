"""Folds a tall solution into columns that are read one after the other, like those of a newspaper.

The solution is cut between two rows of blocks, where few wires pass. Each wire that is cut continues in the gutter
between the columns, and from there into the next column. A wire that only passes the rest of its column leaves it at
once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from gradviz.rendering.layout.box_problem import BoxProblem, BoxSolution
from gradviz.rendering.look.geometry import Point

LANE = 12.0
"""Between wires that run side by side from one column to the next."""
GUTTER_SIDE = 20.0
"""Between a column and the nearest wire in the gutter."""
TURN = 14.0
"""Between the last row of a column and the wire that leaves below it."""
MAX_STEP = 24.0
"""A column is moved by so much at most, so that a wire enters it without a step."""
MAX_CUT_WIRES = 8
MAX_ROWS = 400
"""With more rows, the search for the best cuts would take too long."""
WIRE_COST = 45.0
"""A column may be this much taller if one wire fewer is cut."""
MIN_SHARE_OF_COLUMN = 0.25
"""Every column has at least this much of the height of the tallest: a single item beside a column looks forgotten."""


MIN_PAIRS = 2
"""Skips that make a U."""


class Fold(NamedTuple):
    """How a box is folded."""

    columns: int = 1
    """All of them are read downwards."""
    is_u: bool = False
    """Two columns, the second of which is read upwards, so that skips run straight across."""
    gap: float = 0.0
    """Added between two columns."""


class Row(NamedTuple):
    """Blocks side by side."""

    top: float
    bottom: float
    is_border: bool
    """Only ports of the box."""


class Cut(NamedTuple):
    """A possible end of a column."""

    y: float
    wires: dict[int, float]
    """The wires that cross it, with their x."""
    lanes: int
    """How many of them carry different data."""


class _Part(NamedTuple):
    """The rows between two possible ends of a column."""

    start: int
    """The first of its rows."""
    top: float
    bottom: float
    cost: float
    """Of a cut above it."""


class _ColumnsUpTo(NamedTuple):
    """The best columns of all rows up to the end of a part."""

    height: float
    """Of the tallest; infinite where there are not enough parts."""
    cost: float
    """Of the cuts."""
    starts: tuple[int, ...]
    """The first rows of all but the first column."""


class ColumnFolding:
    """The ways to fold one solution; `folded` gives the solution in columns."""

    def __init__(self, problem: BoxProblem, solution: BoxSolution) -> None:
        self.problem, self.solution = problem, solution

    @cached_property
    def rows(self) -> list[Row]:
        spans = sorted(
            (center.y - block.height / 2, center.y + block.height / 2, bool(block.border))
            for block, center in zip(self.problem.blocks, self.solution.centers, strict=True)
        )
        rows: list[Row] = []
        for top, bottom, is_border in spans:
            if rows and top < rows[-1].bottom:
                rows[-1] = Row(rows[-1].top, max(rows[-1].bottom, bottom), rows[-1].is_border and is_border)
            else:
                rows.append(Row(top, bottom, is_border))
        return rows

    @cached_property
    def cuts(self) -> list[Cut | None]:
        """For each gap between two rows, the best position for a cut; None where too many wires pass."""
        gaps = [(above.bottom, below.top) for above, below in pairwise(self.rows)]
        tops, bottoms = [top for top, _ in gaps], [bottom for _, bottom in gaps]
        levels: list[set[float]] = [set() for _ in gaps]
        crossing: list[list[tuple[int, Point, Point]]] = [[] for _ in gaps]
        for wire, route in enumerate(self.solution.routes):
            for start, end in pairwise(route):
                high, low = min(start.y, end.y), max(start.y, end.y)
                for gap in range(bisect_left(bottoms, high), bisect_right(tops, low)):
                    if start.y == end.y:
                        levels[gap].add(start.y)
                    else:
                        crossing[gap].append((wire, start, end))
        cuts = [
            self._cut(top, bottom, sorted(level), stretches)
            for (top, bottom), level, stretches in zip(gaps, levels, crossing, strict=True)
        ]
        first, last = self._inner_rows
        return [cut if first <= gap < last else None for gap, cut in enumerate(cuts)]

    @property
    def _inner_rows(self) -> tuple[int, int]:
        """The first and the last row that is not only ports."""
        inner = [number for number, row in enumerate(self.rows) if not row.is_border]
        return (inner[0], inner[-1]) if inner else (0, 0)

    def _cut(
        self, top: float, bottom: float, levels: Sequence[float], stretches: Sequence[tuple[int, Point, Point]]
    ) -> Cut | None:
        """The cut through the gap that divides the fewest wires."""
        best: Cut | None = None
        for above, below in pairwise([top, *(level for level in levels if top < level < bottom), bottom]):
            y = (above + below) / 2
            wires: dict[int, float] = {}
            for wire, start, end in stretches:
                if min(start.y, end.y) < y < max(start.y, end.y):
                    if wire in wires or start.y > end.y or start.x != end.x:
                        return None  # A wire that turns back cannot be told which column it belongs to.
                    wires[wire] = start.x
            lanes = len({(self.problem.wires[wire].source, x) for wire, x in wires.items()})
            if lanes <= MAX_CUT_WIRES and (best is None or lanes < best.lanes):
                best = Cut(y, wires, lanes)
        return best

    def best_cuts(self, count: int) -> list[Cut] | None:
        """The cuts for `count` columns of about the same height; None if there are not enough."""
        if not 1 < count <= len(self.rows) or len(self.rows) > MAX_ROWS or len(self._parts) < count:
            return None
        while len(self._best_columns) < count:
            self._best_columns.append(self._with_one_more_column(self._best_columns[-1]))
        starts = self._best_columns[count - 1][-1].starts
        return self._balanced(starts) if len(starts) == count - 1 else None

    @cached_property
    def _parts(self) -> list[_Part]:
        """What lies between the cuts."""
        cuts: list[tuple[int, Cut | None]] = [(0, None)]
        cuts += [(gap + 1, cut) for gap, cut in enumerate(self.cuts) if cut is not None]
        ends = [*(start for start, _ in cuts[1:]), len(self.rows)]
        return [
            _Part(start, self.rows[start].top, self.rows[end - 1].bottom, WIRE_COST * cut.lanes if cut else 0.0)
            for (start, cut), end in zip(cuts, ends, strict=True)
        ]

    @cached_property
    def _best_columns(self) -> list[list[_ColumnsUpTo]]:
        """For each number of columns, beginning with one, and each part: the best columns that end with that part."""
        return [[_ColumnsUpTo(part.bottom - self.rows[0].top, 0.0, ()) for part in self._parts]]

    def _with_one_more_column(self, before: Sequence[_ColumnsUpTo]) -> list[_ColumnsUpTo]:
        parts, infinity = self._parts, float("inf")
        found = []
        for last, part in enumerate(parts):
            best = _ColumnsUpTo(infinity, infinity, ())
            # The earlier the last column begins, the taller it is.
            for first in range(last, 0, -1):
                height, earlier = part.bottom - parts[first].top, before[first - 1]
                if height > best.height + best.cost:
                    break
                height, cost = max(earlier.height, height), earlier.cost + parts[first].cost
                if height < infinity and height + cost <= best.height + best.cost:
                    best = _ColumnsUpTo(height, cost, (*earlier.starts, parts[first].start))
            found.append(best)
        return found

    def _balanced(self, starts: Sequence[int]) -> list[Cut] | None:
        """The cuts before these rows; None if a column is much shorter than the tallest."""
        rows = self.rows
        columns = pairwise([0, *starts, len(rows)])
        heights = [rows[end - 1].bottom - rows[start].top for start, end in columns]
        if min(heights) < MIN_SHARE_OF_COLUMN * max(heights):
            return None
        return [cut for start in starts if (cut := self.cuts[start - 1]) is not None]

    def folded(self, fold: Fold) -> BoxSolution | None:
        """The solution in columns; None if it cannot be folded in this way."""
        cuts = self.cuts_of(fold)
        return None if cuts is None else _Columns(self.problem, self.solution, self.rows, cuts, fold).solution()

    def cuts_of(self, fold: Fold) -> list[Cut] | None:
        """Where the solution is cut; None if it cannot be folded in this way."""
        if not fold.is_u:
            return self.best_cuts(fold.columns)
        cut = self._bottom_of_u()
        return None if cut is None else [cut]

    def _bottom_of_u(self) -> Cut | None:
        """Where most pairs of skips are open, the cut that divides the height best; None where skips do not pair up."""
        if len(self.rows) > MAX_ROWS:
            return None
        cuts = [cut for cut in self.cuts if cut is not None and self._pairs_at(cut) >= MIN_PAIRS]
        middle = (self.rows[0].top + self.rows[-1].bottom) / 2
        return max(cuts, key=lambda cut: (self._pairs_at(cut), -abs(cut.y - middle)), default=None)

    def _pairs_at(self, cut: Cut) -> int:
        """How many skips enclose each other at a cut; 0 where some do not: what was left last must arrive first."""
        centers, wires = self.solution.centers, self.problem.wires
        ends: dict[int, float] = {}
        for wire in cut.wires:
            source, target = wires[wire].source, centers[wires[wire].target].y
            ends[source] = max(target, ends.get(source, target))
        targets = [ends[source] for source in sorted(ends, key=lambda source: -centers[source].y)]
        is_nested = all(above < below for above, below in pairwise(targets))
        return len(targets) - 1 if is_nested else 0


@dataclass
class _Lane:
    """The way of one source from a column to the next."""

    source: int
    x: float
    """At which it crosses the cut."""
    wires: list[int]
    leave: float | None = None
    """The y, before folding, at which it leaves the column sideways; None if it leaves below the last row."""
    arrive: dict[int, float] = field(default_factory=dict)
    """For wires that go sideways to their target, the y of that stretch; the others arrive above the column."""
    position: int = 0
    below: int = 0
    """Its rank among those that leave below the column, the topmost first."""
    above: int = 0
    """Its rank among those that arrive above the next column, the lowest first."""
    passes: bool = False
    """True if it only passes the next column, above it."""
    passed: bool = False
    """True if it has passed the column before."""
    turns_to: float | None = None
    """The x at which it comes down into the next column, if it turns aside above that."""

    @property
    def enter_x(self) -> float:
        """At which it comes down into the next column."""
        return self.x if self.turns_to is None else self.turns_to


class _Columns:
    def __init__(
        self,
        problem: BoxProblem,
        solution: BoxSolution,
        rows: Sequence[Row],
        cuts: Sequence[Cut],
        fold: Fold,
    ) -> None:
        self._problem, self._solution, self._cuts = problem, solution, cuts
        self._rows, self._is_u, self._gap = rows, fold.is_u, fold.gap
        self._row_tops = [row.top for row in rows]
        self._cut_ys = [cut.y for cut in cuts]
        self._count = len(cuts) + 1
        self._pieces = [self._divided(wire) for wire in range(len(problem.wires))]
        self._levels = self._level_stretches()
        self._lanes: list[list[_Lane]] = []
        for number in range(len(cuts)):
            self._lanes.append(self._lanes_of(number))

    def solution(self) -> BoxSolution:
        """Blocks and routes at their new positions."""
        self._shift_x, self._gutters = self._horizontal_shifts()
        self._shift_y = self._vertical_shifts()
        centers = [self._moved(center, self._column_of(center.y)) for center in self._solution.centers]
        routes = [self._route(wire) for wire in range(len(self._problem.wires))]
        if not self._is_u:
            return BoxSolution(tuple(centers), tuple(routes))
        upward = {block for block, center in enumerate(self._solution.centers) if self._column_of(center.y)}
        self._lead_exits_down(centers, routes)
        return BoxSolution(tuple(centers), tuple(routes), frozenset(upward))

    def _lead_exits_down(self, centers: list[Point], routes: list[tuple[Point, ...]]) -> None:
        """In a U, wires leave the box at the right: the second column ends at the upper border."""
        exits = [block for block, each in enumerate(self._problem.blocks) if each.border == "exit"]
        right = self._extent(1)[1] + self._shift_x[1] + GUTTER_SIDE
        bottom = max(center.y for center in centers) + TURN
        for rank, block in enumerate(sorted(exits, key=lambda block: -centers[block].x)):
            top, x = centers[block].y - LANE * rank, right + LANE * rank
            centers[block] = Point(x, bottom)
            for wire, ends in enumerate(self._problem.wires):
                if ends.target == block:
                    last = routes[wire][-1]
                    routes[wire] = (*routes[wire][:-1], Point(last.x, top), Point(x, top), Point(x, bottom))

    def _column_of(self, y: float) -> int:
        return bisect_left(self._cut_ys, y)

    def _moved(self, point: Point, column: int) -> Point:
        if self._is_u and column:
            return Point(point.x + self._shift_x[column], self._shift_y[column] - point.y)
        return Point(point.x + self._shift_x[column], point.y + self._shift_y[column])

    # -- what is where before folding --

    def _divided(self, wire: int) -> dict[int, list[Point]]:
        """The points of a wire by column, with a point at each cut."""
        route = self._solution.routes[wire]
        pieces: dict[int, list[Point]] = {self._column_of(route[0].y): [route[0]]}
        for start, end in pairwise(route):
            column = self._column_of(start.y)
            for cut in range(column, self._column_of(end.y)):
                pieces[cut].append(Point(start.x, self._cut_ys[cut]))
                pieces[cut + 1] = [Point(start.x, self._cut_ys[cut])]
            pieces[self._column_of(end.y)].append(end)
        return pieces

    def _level_stretches(self) -> list[tuple[float, float, float, int]]:
        """All horizontal stretches: y, left, right, source. Sorted, so that the near ones are found at once."""
        return sorted(
            (start.y, min(start.x, end.x), max(start.x, end.x), self._problem.wires[wire].source)
            for wire, route in enumerate(self._solution.routes)
            for start, end in pairwise(route)
            if start.y == end.y
        )

    def _is_free(self, y: float, left: float, right: float, source: int) -> bool:
        """Whether a wire may run at `y`: between two rows, and not on a wire of another source."""
        row = bisect_right(self._row_tops, y + 5) - 1
        if row >= 0 and y - 5 < self._rows[row].bottom:
            return False
        near = range(bisect_left(self._levels, (y - 6,)), bisect_right(self._levels, (y + 6,)))
        return not any(
            self._levels[each][1] < right and left < self._levels[each][2] and self._levels[each][3] != source
            for each in near
        )

    def _extent(self, column: int) -> tuple[float, float]:
        xs: list[float] = []
        for block, center in zip(self._problem.blocks, self._solution.centers, strict=True):
            if self._column_of(center.y) == column:
                xs += (center.x - block.width / 2 - block.left, center.x + block.width / 2 + block.right)
        for pieces in self._drawn_pieces:
            xs += [point.x for point in pieces.get(column, ())]
        return min(xs), max(xs)

    @cached_property
    def _drawn_pieces(self) -> list[dict[int, list[Point]]]:
        """The parts of wires that stay within their column: without those that run in the gutter instead."""
        drawn = [dict(pieces) for pieces in self._pieces]
        for number, lanes in enumerate(self._lanes):
            for lane in lanes:
                for wire in lane.wires:
                    if lane.passes:
                        drawn[wire][number + 1] = []
                    if lane.leave is not None:
                        drawn[wire][number] = _up_to_last_turn(drawn[wire].get(number, []), lane.leave)
                    if wire in lane.arrive or lane.turns_to is not None:
                        drawn[wire][number + 1] = _from_first_turn(drawn[wire].get(number + 1, []))
        return drawn

    # -- the gutters --

    def _lanes_of(self, number: int) -> list[_Lane]:
        cut = self._cuts[number]
        by_source: dict[tuple[int, float], _Lane] = {}
        for wire, x in cut.wires.items():
            source = self._problem.wires[wire].source
            by_source.setdefault((source, x), _Lane(source, x, [])).wires.append(wire)
        lanes = list(by_source.values())
        for lane in lanes:
            self._find_short_ways(lane, number)
        passed = [lane for lane in lanes if lane.passed]
        below = sorted((lane for lane in lanes if lane.leave is None and not lane.passed), key=lambda lane: -lane.x)
        sideways = sorted((lane for lane in lanes if lane.leave is not None), key=lambda lane: lane.leave or 0.0)
        for position, lane in enumerate([*passed, *sideways, *below]):
            lane.position = position
        for rank, lane in enumerate(below):
            lane.below = rank
        above = sorted((lane for lane in lanes if len(lane.arrive) < len(lane.wires)), key=lambda lane: lane.enter_x)
        for rank, lane in enumerate(above):
            lane.above = rank
        return lanes

    def _find_short_ways(self, lane: _Lane, number: int) -> None:
        """Let a lane leave its column where it turns for the last time, and its wires arrive where they turn first."""
        lane.passes = number + 1 < len(self._cuts) and all(
            len(self._pieces[wire].get(number + 1, ())) == 2 and number + 2 in self._pieces[wire] for wire in lane.wires
        )
        if number and (before := [each for each in self._lanes[-1] if lane.wires[0] in each.wires]):
            lane.passed = before[0].passes and set(lane.wires) <= set(before[0].wires)
            before[0].passes = lane.passed
        turns = {self._last_turn(self._pieces[wire][number]) for wire in lane.wires}
        turn = turns.pop() if len(turns) == 1 else None
        last_top = self._last_row_before(number).top
        if (
            turn is not None
            and not lane.passed
            and turn.y < last_top
            and self._is_free(turn.y, turn.x, float("inf"), lane.source)
        ):
            lane.leave = turn.y
        if self._turns_above(lane, number):
            return
        for wire in lane.wires:
            piece = self._pieces[wire][number + 1]
            if _has_turn(piece):
                left, right = float("-inf"), max(piece[1].x, piece[2].x)
                if self._is_free(piece[1].y, left, right, lane.source):
                    lane.arrive[wire] = piece[1].y

    def _turns_above(self, lane: _Lane, number: int) -> bool:
        """Whether a lane of one wire turns above the next column: it then comes down there where it would turn to."""
        piece = self._pieces[lane.wires[0]][number + 1]
        if self._is_u or len(lane.wires) > 1 or lane.passes or not _has_turn(piece):
            return False
        if piece[1].y >= self._first_row_after(number).top:
            return False
        lane.turns_to = piece[2].x
        return True

    @staticmethod
    def _last_turn(piece: Sequence[Point]) -> Point | None:
        """Where the last vertical stretch of a piece begins, if a horizontal one is before it."""
        return piece[-2] if len(piece) > 2 and piece[-3].y == piece[-2].y else None

    def _last_row_before(self, number: int) -> Row:
        return self._rows[bisect_right(self._row_tops, self._cut_ys[number]) - 1]

    def _first_row_after(self, number: int) -> Row:
        return self._rows[bisect_right(self._row_tops, self._cut_ys[number])]

    def _horizontal_shifts(self) -> tuple[list[float], list[float]]:
        """How far each column moves, and the x of the first lane in each gutter."""
        shifts, gutters = [0.0], []
        _, right = self._extent(0)
        for number, lanes in enumerate(self._lanes):
            gutters.append(right + GUTTER_SIDE + self._gap / 2)
            left, own_right = self._extent(number + 1)
            shifts.append(gutters[-1] + LANE * max(0, len(lanes) - 1) + GUTTER_SIDE + self._gap / 2 - left)
            right = own_right + shifts[-1]
        return shifts, gutters

    def _vertical_shifts(self) -> list[float]:
        """How far each column moves up: their first rows of blocks begin at about one height."""
        top = next((row.top for row in self._rows if not row.is_border), self._rows[0].top)
        if self._is_u:
            return [0.0, self._last_row_before(0).bottom + self._first_row_after(0).top]
        shifts = [0.0]
        for number, lanes in enumerate(self._lanes):
            above = sum(len(lane.arrive) < len(lane.wires) for lane in lanes)
            first = self._first_row_after(number)
            start = self._start_of(number)
            needed = LANE * max(0, above - 1)
            # Content begins at `start`; the lanes above it may use the space of the ports of the first column.
            room = top - self._rows[0].top if self._rows[0].is_border else 0.0
            shift = top - room / 2 + needed - start if above else top - first.top
            shifts.append(shift + self._small_step(number, shifts[-1], shift))
        return shifts

    def _small_step(self, number: int, shift: float, next_shift: float) -> float:
        """By how much to lower a column, so that a wire from the column before runs straight into the gutter and on."""
        for lane in self._lanes[number]:
            if lane.leave is not None and not lane.passes and len(lane.arrive) < len(lane.wires):
                step = lane.leave + shift - (self._start_of(number) + next_shift - LANE * lane.above)
                if abs(step) < MAX_STEP:
                    return step
        return 0.0

    def _route(self, wire: int) -> tuple[Point, ...]:
        points: list[Point] = []
        pieces = self._drawn_pieces[wire]
        columns = sorted(self._pieces[wire])
        for column in columns:
            points += [self._moved(point, column) for point in pieces.get(column, ())]
            if column != columns[-1]:
                self._connect(points, wire, column)
        return tuple(points)

    def _connect(self, points: list[Point], wire: int, number: int) -> None:
        """Lead a wire from its column through the gutter to the next column."""
        lane = next(lane for lane in self._lanes[number] if wire in lane.wires)
        x = self._gutters[number] + LANE * lane.position
        if self._is_u and lane.leave is None and wire not in lane.arrive:
            level = self._below_u(lane)
            points[-1] = Point(points[-1].x, level)
            points.append(Point(lane.x + self._shift_x[1], level))
            return
        if lane.passed:
            before = next(each for each in self._lanes[number - 1] if wire in each.wires)
            level = self._top_of(number - 1) - LANE * before.above
        elif lane.leave is None:
            level = self._last_row_before(number).bottom + TURN + LANE * lane.below + self._shift_y[number]
            level = max(level, self._lowest_turn(number) + self._shift_y[number] + TURN / 2 + LANE * lane.below)
            points[-1] = Point(points[-1].x, level)
        else:
            level = lane.leave + self._shift_y[number]
        points.append(Point(x, level))
        following = self._drawn_pieces[wire][number + 1]
        if wire in lane.arrive:
            points.append(Point(x, self._moved(following[0], number + 1).y))
            return
        if lane.passes:
            points.append(Point(x, self._top_of(number) - LANE * lane.above))
            return
        if self._is_u:
            level = self._below_u(lane)
            points += [Point(x, level), Point(lane.x + self._shift_x[1], level)]
            return
        top = self._top_of(number) - LANE * lane.above
        points += [Point(x, top), Point(lane.enter_x + self._shift_x[number + 1], top)]

    def _below_u(self, lane: _Lane) -> float:
        """The y at which a lane runs below both columns of a U."""
        lowest = max(
            self._lowest_turn(0), self._shift_y[1] - min(self._first_row_after(0).top, self._highest_turn_after(0))
        )
        rank = sorted(self._lanes[0], key=lambda each: -each.x).index(lane)
        return lowest + TURN + LANE * rank

    def _highest_turn_after(self, number: int) -> float:
        """The highest horizontal stretch between a cut and the first row after it."""
        first = self._first_row_after(number)
        return min((y for y, *_ in self._levels if self._cut_ys[number] < y < first.top), default=first.top)

    def _lowest_turn(self, number: int) -> float:
        """The lowest horizontal stretch between the last row of a column and the cut."""
        row, cut = self._last_row_before(number), self._cut_ys[number]
        return max((y for y, *_ in self._levels if row.bottom < y < cut), default=row.bottom)

    def _top_of(self, number: int) -> float:
        """The y of the lowest wire above a column."""
        return self._start_of(number) + self._shift_y[number + 1]

    def _start_of(self, number: int) -> float:
        """The same before folding."""
        return min(self._first_row_after(number).top - TURN, self._highest_turn_after(number) - TURN / 2)


def _has_turn(piece: Sequence[Point]) -> bool:
    """Whether a piece turns aside after its first stretch."""
    return len(piece) > 2 and piece[1].y == piece[2].y


def _up_to_last_turn(piece: Sequence[Point], y: float) -> list[Point]:
    """A piece without its last vertical stretch, and without the corner before it."""
    return list(piece[:-2]) if len(piece) > 2 else [Point(point.x, y) for point in piece[:1]]


def _from_first_turn(piece: Sequence[Point]) -> list[Point]:
    """A piece without its first vertical stretch and the corner after it."""
    return list(piece[2:])
