"""The space beside blocks is kept free."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from gradviz.rendering.layout.box_problem import Block, BoxProblem, BoxSolution, Wire
from gradviz.rendering.layout.side_space import solve_with_side_space
from gradviz.rendering.look.geometry import Direction, Point, Rect
from tests.unit.rendering.layout.random_sketches import random_sketch
from tests.unit.rendering.layout.test_graphlay_engine import laid_out, overlap


@pytest.mark.parametrize("direction", ["TB", "LR"])
@pytest.mark.parametrize("seed", range(30))
def test_no_wire_runs_through_an_item_and_no_two_items_overlap(seed: int, direction: Direction) -> None:
    view, _, layout = laid_out(random_sketch(seed), direction)
    closed = [item.id for item in view.items if not item.is_open]
    assert not any(overlap(layout.boxes[one], layout.boxes[other]) for one, other in combinations(closed, 2))
    for link, route in zip(view.links, layout.routes, strict=True):
        for item in set(closed) - {link.source, link.target}:
            assert not any(overlap(_around(start, end), layout.boxes[item]) for start, end in pairwise(route))


def _around(start: Point, end: Point) -> Rect:
    return Rect(min(start.x, end.x), min(start.y, end.y), abs(start.x - end.x), abs(start.y - end.y))


def side_by_side(problem: BoxProblem) -> BoxSolution:
    """An engine that keeps only 20 pixels between blocks, and draws wires straight down."""
    centers, x = [], 0.0
    for block in problem.blocks:
        centers.append(Point(x + block.width / 2, 0.0))
        x += block.width + 20
    return BoxSolution(tuple(centers), tuple((Point(0, -50), Point(0, -40)) for _ in problem.wires))


def test_a_block_whose_space_the_engine_ignores_is_made_wide_enough() -> None:
    problem = BoxProblem((Block(100, 20, right=60), Block(100, 20)), ())
    solution = solve_with_side_space(problem, side_by_side)
    assert solution is not None
    assert solution.centers[1].x - 50 >= solution.centers[0].x + 50 + 60


def test_only_one_of_two_neighbours_that_need_the_same_space_is_widened() -> None:
    asked: list[BoxProblem] = []

    def engine(problem: BoxProblem) -> BoxSolution:
        asked.append(problem)
        return side_by_side(problem)

    solve_with_side_space(BoxProblem((Block(100, 20, right=5), Block(100, 20, left=60)), ()), engine)
    assert [block.width for block in asked[-1].blocks] == [110, 220]
    assert [block.width for block in asked[1].blocks] == [110, 100]


def test_the_ends_of_wires_stay_where_they_were_when_a_block_is_widened() -> None:
    asked: list[BoxProblem] = []

    def engine(problem: BoxProblem) -> BoxSolution:
        asked.append(problem)
        return side_by_side(problem)

    blocks = (Block(100, 20, right=50), Block(100, 20))
    solve_with_side_space(BoxProblem(blocks, (Wire(0, 1, source_position=1.0, target_position=0.5),)), engine)
    assert asked[-1].wires == (Wire(0, 1, source_position=0.5, target_position=0.5),)


def test_an_engine_that_refuses_is_not_asked_again() -> None:
    assert solve_with_side_space(BoxProblem((Block(10, 10, left=5),), ()), lambda _: None) is None
