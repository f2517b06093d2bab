"""Space beside blocks for what extends beyond them: leaves beside an operation, the longer half of a box.

Between two neighbours, the engine keeps the larger of the two requested spaces, not their sum, and it may run wires
through that space. So the result is checked. A block without its space is made wide enough to include the space on both
sides: that costs width, but nothing else can be there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from gradviz.rendering.layout.box_problem import Block, BoxProblem, BoxSolution, Wire

CLEARANCE = 12.0
"""Between what extends beyond a block and whatever is next to it."""
MAX_ROUNDS = 3
"""After this many rounds, every block is made wide enough."""

Ask = Callable[[BoxProblem], BoxSolution | None]


class _Stretch(NamedTuple):
    """A straight part of a wire."""

    wire: Wire
    left: float
    right: float
    top: float
    bottom: float


def solve_with_side_space(problem: BoxProblem, ask: Ask) -> BoxSolution | None:
    """The solution of `ask` for `problem`, in which every block has its space; None if `ask` returns none."""
    sticking_out = {number for number, block in enumerate(problem.blocks) if block.left or block.right}
    widened: set[int] = set()
    for _ in range(MAX_ROUNDS):
        solution = ask(_with_wide_blocks(problem, widened))
        if solution is None:
            return None
        lacking = _lacking_space(problem, solution, sticking_out - widened)
        if not lacking:
            return solution
        widened |= lacking
    return ask(_with_wide_blocks(problem, sticking_out))


def _with_wide_blocks(problem: BoxProblem, widened: set[int]) -> BoxProblem:
    if not widened:
        return problem
    blocks = [_widened(block) if number in widened else block for number, block in enumerate(problem.blocks)]
    return BoxProblem(tuple(blocks), tuple(_with_positions_in(blocks, problem, wire) for wire in problem.wires))


def _widened(block: Block) -> Block:
    return block._replace(width=block.width + 2 * max(block.left, block.right), left=0.0, right=0.0)


def _with_positions_in(blocks: Sequence[Block], problem: BoxProblem, wire: Wire) -> Wire:
    """The same wire with its ends at the same x: positions are fractions of a width that may have grown."""

    def scaled(position: float | None, block: int) -> float | None:
        grown = problem.blocks[block].width / blocks[block].width
        return None if position is None else round(position * grown, 6)

    return wire._replace(
        source_position=scaled(wire.source_position, wire.source),
        target_position=scaled(wire.target_position, wire.target),
    )


def _lacking_space(problem: BoxProblem, solution: BoxSolution, concerned: set[int]) -> set[int]:
    """The blocks among `concerned` into whose space another block or a wire intrudes."""
    if not concerned:
        return set()
    found: set[int] = set()
    rows = list(_rows(problem, solution))
    for row in rows:
        for one, other in pairwise(row):
            if _gap(problem, solution, one, other) < CLEARANCE:
                able = [block for block in (one, other) if block in concerned]
                found.update(sorted(able, key=lambda block: max(problem.blocks[block][3:]))[:1])
    for row, stretches in zip(rows, _stretches_through(rows, problem, solution), strict=True):
        for block in row:
            if block in concerned and any(_runs_beside(problem, solution, block, each) for each in stretches):
                found.add(block)
    return found


def _rows(problem: BoxProblem, solution: BoxSolution) -> Iterator[list[int]]:
    """Blocks that are side by side, from left to right. The engine never lets two rows overlap."""
    order = sorted(range(len(problem.blocks)), key=lambda block: _top(problem, solution, block))
    row: list[int] = []
    bottom = 0.0
    for block in order:
        if row and _top(problem, solution, block) >= bottom:
            yield sorted(row, key=lambda member: solution.centers[member].x)
            row = []
        lower = _bottom(problem, solution, block)
        bottom = max(bottom, lower) if row else lower
        row.append(block)
    if row:
        yield sorted(row, key=lambda member: solution.centers[member].x)


def _top(problem: BoxProblem, solution: BoxSolution, block: int) -> float:
    return solution.centers[block].y - problem.blocks[block].height / 2


def _bottom(problem: BoxProblem, solution: BoxSolution, block: int) -> float:
    return solution.centers[block].y + problem.blocks[block].height / 2


def _gap(problem: BoxProblem, solution: BoxSolution, one: int, other: int) -> float:
    return _left(problem, solution, other) - _right(problem, solution, one)


def _left(problem: BoxProblem, solution: BoxSolution, block: int) -> float:
    return solution.centers[block].x - problem.blocks[block].width / 2 - problem.blocks[block].left


def _right(problem: BoxProblem, solution: BoxSolution, block: int) -> float:
    return solution.centers[block].x + problem.blocks[block].width / 2 + problem.blocks[block].right


def _stretches_through(
    rows: Sequence[Sequence[int]], problem: BoxProblem, solution: BoxSolution
) -> list[list[_Stretch]]:
    """For each row, the stretches of wires that pass it. Checking all wires for each block would be quadratic."""
    bottoms = [max(_bottom(problem, solution, block) for block in row) for row in rows]
    tops = [min(_top(problem, solution, block) for block in row) for row in rows]
    through: list[list[_Stretch]] = [[] for _ in rows]
    for wire, route in zip(problem.wires, solution.routes, strict=True):
        for start, end in pairwise(route):
            left, right = sorted((start.x, end.x))
            top, bottom = sorted((start.y, end.y))
            stretch = _Stretch(wire, left, right, top, bottom)
            for row in range(bisect_right(bottoms, top), bisect_left(tops, bottom)):
                through[row].append(stretch)
    return through


def _runs_beside(problem: BoxProblem, solution: BoxSolution, block: int, stretch: _Stretch) -> bool:
    """Whether a wire of other blocks intrudes into the space of this one."""
    return (
        block not in (stretch.wire.source, stretch.wire.target)
        and stretch.left < _right(problem, solution, block) + CLEARANCE / 2
        and stretch.right > _left(problem, solution, block) - CLEARANCE / 2
        and stretch.top < _bottom(problem, solution, block)
        and stretch.bottom > _top(problem, solution, block)
    )
