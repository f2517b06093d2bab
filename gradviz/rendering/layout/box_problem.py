"""One open box as a separate layout problem: rectangles, and wires between them, from top to bottom.

Problems are plain hashable values, so two boxes with the same sizes and wires are laid out only once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gradviz.rendering.look.geometry import Point, Route

PORT_SIZE = 1.0
"""Side of the small square that represents a wire's crossing of the box's border."""


class Block(NamedTuple):
    """A rectangle to be positioned. `border` is set if it represents a wire that enters or leaves the box."""

    width: float
    height: float
    border: str = ""
    """``""``, ``"entry"`` or ``"exit"``."""
    left: float = 0.0
    """Space needed beside it, at the left. Wires end within `width`."""
    right: float = 0.0


class Wire(NamedTuple):
    """A line from the lower side of one block to the upper side of another.

    A position on a side is a fraction of half its width: -1 left end, 0 middle, 1 right end; None: the engine chooses.
    """

    source: int
    target: int
    source_position: float | None = None
    target_position: float | None = None


@dataclass(frozen=True)
class BoxProblem:
    """The content of one box."""

    blocks: tuple[Block, ...]
    wires: tuple[Wire, ...]


@dataclass(frozen=True)
class BoxSolution:
    """Centres of the blocks and routes of the wires, in any coordinate system."""

    centers: tuple[Point, ...]
    routes: tuple[Route, ...]
    upward: frozenset[int] = frozenset()
    """Blocks that wires enter from below and leave above."""


def layers_of(problem: BoxProblem) -> list[int]:
    """The layer of each block, by the longest path from the sources. Sources are then moved down next to their users.

    In a cycle, the block created first comes first, and wires that reach it from below are ignored.
    """
    count = len(problem.blocks)
    successors: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for wire in problem.wires:
        successors[wire.source].append(wire.target)
        waiting[wire.target] += 1
    is_source = [wanted == 0 for wanted in waiting]
    layer = [0] * count
    done = [False] * count
    ready = [block for block in range(count) if is_source[block]]
    next_forced = 0
    order: list[int] = []
    while len(order) < count:
        if not ready:
            while done[next_forced]:
                next_forced += 1
            ready.append(next_forced)
        block = ready.pop()
        if done[block]:
            continue
        done[block] = True
        order.append(block)
        for target in successors[block]:
            waiting[target] -= 1
            if not done[target]:
                layer[target] = max(layer[target], layer[block] + 1)
                if waiting[target] == 0:
                    ready.append(target)
    _pull_sources_down(problem, layer, successors, is_source)
    return layer


def _pull_sources_down(
    problem: BoxProblem, layer: list[int], successors: list[list[int]], is_source: list[bool]
) -> None:
    for block, below in enumerate(successors):
        if is_source[block] and below and problem.blocks[block].border != "entry":
            layer[block] = max(0, min(layer[target] for target in below) - 1)
