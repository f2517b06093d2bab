"""Puts interchangeable siblings in the order in which the program made them: q, k, v.

Layout engines order them arbitrarily. Exchanging blocks of one size with the same neighbours changes no crossing.
"""

from __future__ import annotations

from gradviz.rendering.layout.box_problem import BoxProblem, BoxSolution, Wire
from gradviz.rendering.look.geometry import Route

FREE = 9.0
"""Represents a position that the engine chose: outside the range of positions."""

WireKey = tuple[int, int, float, float]


def in_creation_order(problem: BoxProblem, solution: BoxSolution) -> BoxSolution:
    """The same picture with interchangeable blocks sorted from left to right."""
    slot_of = list(range(len(problem.blocks)))
    for blocks in _interchangeable(problem):
        slots = sorted(blocks, key=lambda block: (solution.centers[block].x, block))
        for block, slot in zip(blocks, slots, strict=True):
            slot_of[block] = slot
    routes: dict[WireKey, list[Route]] = {}
    for wire, route in zip(reversed(problem.wires), reversed(solution.routes), strict=True):
        routes.setdefault(_key(wire, wire.source, wire.target), []).append(route)
    moved = tuple(routes[_key(wire, slot_of[wire.source], slot_of[wire.target])].pop() for wire in problem.wires)
    return BoxSolution(tuple(solution.centers[slot] for slot in slot_of), moved)


def _interchangeable(problem: BoxProblem) -> list[list[int]]:
    """Groups of blocks of one size with the same wires to the same neighbours."""
    neighbours: list[list[WireKey]] = [[] for _ in problem.blocks]
    for wire in problem.wires:
        neighbours[wire.source].append(_key(wire, -1, wire.target))
        neighbours[wire.target].append(_key(wire, wire.source, -1))
    alike: dict[object, list[int]] = {}
    for block, wires in enumerate(neighbours):
        alike.setdefault((problem.blocks[block], tuple(sorted(wires))), []).append(block)
    return [blocks for blocks in alike.values() if len(blocks) > 1]


def _key(wire: Wire, source: int, target: int) -> WireKey:
    source_position = FREE if wire.source_position is None else wire.source_position
    target_position = FREE if wire.target_position is None else wire.target_position
    return source, target, source_position, target_position
