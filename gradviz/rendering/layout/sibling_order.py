"""Puts interchangeable siblings in the order in which the program made them: q, k, v.

Layout engines order them arbitrarily. Exchanging blocks of one size with the same neighbours changes no crossing, nor
does exchanging chains of such blocks.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from itertools import pairwise

from gradviz.rendering.layout.box_problem import BoxProblem, BoxSolution, Wire
from gradviz.rendering.look.geometry import Route

FREE = 9.0
"""Represents a position that the engine chose: outside the range of positions."""

MAX_SPREAD = 1.5
"""Siblings whose widths differ by a larger factor keep them, and the order that the engine chooses."""

WireKey = tuple[int, int, float, float]
Chain = tuple[int, ...]


def in_creation_order(problem: BoxProblem, solution: BoxSolution) -> BoxSolution:
    """The same picture with interchangeable chains of blocks sorted from left to right."""
    slot_of = list(range(len(problem.blocks)))
    movable: set[int] = set()
    for chains in _siblings(problem, problem.blocks):
        slots = sorted(chains, key=lambda chain: (solution.centers[chain[0]].x, chain[0]))
        movable.update(*chains)
        for chain, slot in zip(chains, slots, strict=True):
            for block, other in zip(chain, slot, strict=True):
                slot_of[block] = other
    routes: dict[WireKey, list[Route]] = {}
    for wire, route in zip(reversed(problem.wires), reversed(solution.routes), strict=True):
        routes.setdefault(_key(_without_ends(wire, movable)), []).append(route)
    moved = tuple(
        routes[_key(_without_ends(wire, movable), slot_of[wire.source], slot_of[wire.target])].pop()
        for wire in problem.wires
    )
    return BoxSolution(tuple(solution.centers[slot] for slot in slot_of), moved)


def is_in_creation_order(problem: BoxProblem, solution: BoxSolution) -> bool:
    """Whether all interchangeable chains of `problem` are sorted from left to right."""
    return all(
        solution.centers[one[0]].x <= solution.centers[other[0]].x
        for chains in _siblings(problem, problem.blocks)
        for one, other in pairwise(sorted(chains))
    )


def with_equal_siblings(problem: BoxProblem) -> BoxProblem:
    """The problem with siblings of about the same width made equally wide, so that they are interchangeable."""
    blocks = list(problem.blocks)
    for chains in _siblings(problem, [block[1:] for block in blocks]):
        for alike in zip(*chains, strict=True):
            widths = [blocks[each].width for each in alike]
            if max(widths) <= MAX_SPREAD * min(widths):
                for each in alike:
                    blocks[each] = blocks[each]._replace(width=max(widths))
    return BoxProblem(tuple(blocks), problem.wires)


def _siblings(problem: BoxProblem, sizes: Sequence[Hashable]) -> list[list[Chain]]:
    """Groups of chains whose `sizes` are equal, with the same wires to the same neighbours."""
    sources: list[list[Wire]] = [[] for _ in problem.blocks]
    targets: list[list[Wire]] = [[] for _ in problem.blocks]
    for wire in problem.wires:
        targets[wire.source].append(wire)
        sources[wire.target].append(wire)
    alike: dict[Hashable, list[Chain]] = {}
    for chain in _chains(sources, targets):
        above = sorted(_key(wire._replace(source_position=None), wire.source, -1) for wire in sources[chain[0]])
        below = sorted(_key(wire._replace(target_position=None), -1, wire.target) for wire in targets[chain[-1]])
        between = [_key(targets[block][0], -1, -1) for block in chain[:-1]]
        shape = tuple(sizes[block] for block in chain)
        alike.setdefault((shape, tuple(above), tuple(between), tuple(below)), []).append(chain)
    return [chains for chains in alike.values() if len(chains) > 1]


def _chains(sources: Sequence[Sequence[Wire]], targets: Sequence[Sequence[Wire]]) -> Iterator[Chain]:
    """Each block with those that follow one after the other, with a single wire between two of them."""

    def follows(block: int) -> bool:
        return len(sources[block]) == 1 and len(targets[sources[block][0].source]) == 1

    for block in range(len(sources)):
        if not follows(block):
            chain = [block]
            while len(targets[chain[-1]]) == 1 and follows(targets[chain[-1]][0].target):
                chain.append(targets[chain[-1]][0].target)
            yield tuple(chain)


def _without_ends(wire: Wire, movable: Collection[int]) -> Wire:
    """The wire without its positions at blocks that stay: exchanged siblings exchange these."""
    return wire._replace(
        source_position=wire.source_position if wire.source in movable else None,
        target_position=wire.target_position if wire.target in movable else None,
    )


def _key(wire: Wire, source: int | None = None, target: int | None = None) -> WireKey:
    source_position = FREE if wire.source_position is None else wire.source_position
    target_position = FREE if wire.target_position is None else wire.target_position
    own = wire.source if source is None else source, wire.target if target is None else target
    return *own, source_position, target_position
