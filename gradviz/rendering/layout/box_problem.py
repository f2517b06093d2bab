"""One open box as a layout problem of its own: rectangles, and wires between them, from top to bottom.

Problems are plain hashable values, so that two boxes with the same sizes and the same wiring are laid out once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gradviz.rendering.look.geometry import Point, Route

PORT_SIZE = 1.0
"""Side of the small dummy that stands where a wire crosses the border of the box."""


class Block(NamedTuple):
    """A rectangle to be placed; `border` marks the dummy of a wire that enters or leaves the box."""

    width: float
    height: float
    border: str = ""
    """``""``, ``"entry"`` or ``"exit"``."""
    left: float = 0.0
    """Room that it needs beside it, too: wires end within `width`."""
    right: float = 0.0


class Wire(NamedTuple):
    """A line from the lower side of one block to the upper side of another.

    A place on a side is a fraction of half its width: -1 left end, 0 middle, 1 right end; None: anywhere.
    """

    source: int
    target: int
    source_place: float | None = None
    target_place: float | None = None


@dataclass(frozen=True)
class BoxProblem:
    """What is inside one box."""

    blocks: tuple[Block, ...]
    wires: tuple[Wire, ...]


@dataclass(frozen=True)
class BoxSolution:
    """Centres of the blocks and routes of the wires, in any coordinate system of their own."""

    centers: tuple[Point, ...]
    routes: tuple[Route, ...]


def layers_of(problem: BoxProblem) -> list[int]:
    """The layer of each block by longest path from the sources; sources are then pulled down to their users.

    Where wires run in a circle, the block that was created first goes first and its wires from below are ignored.
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
