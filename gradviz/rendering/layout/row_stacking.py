"""Breaks the widest layer of a box into several rows, one below the other.

The layout engine is given wires that do not exist, from each row to the next, so that it positions them one below the
other; these wires are left out of its solution.
"""

from __future__ import annotations

from gradviz.rendering.layout.box_problem import BoxProblem, BoxSolution, Wire, layers_of


def stacked(problem: BoxProblem, rows: int) -> BoxProblem:
    """The problem with the blocks of its widest layer in `rows` rows, in the order in which they were made."""
    layer = widest_layer(problem)
    if rows < 2 or len(layer) < 2 * rows:
        return problem
    length = -(-len(layer) // rows)
    below = zip(layer, layer[length:], strict=False)
    return BoxProblem(problem.blocks, (*problem.wires, *(Wire(block, other) for block, other in below)))


def without_added_wires(problem: BoxProblem, solution: BoxSolution) -> BoxSolution:
    """The solution of the stacked problem as a solution of `problem`."""
    return BoxSolution(solution.centers, solution.routes[: len(problem.wires)])


def widest_layer(problem: BoxProblem) -> list[int]:
    """The blocks of the layer that needs the most space."""
    layers: dict[int, list[int]] = {}
    for block, layer in enumerate(layers_of(problem)):
        if not problem.blocks[block].border:
            layers.setdefault(layer, []).append(block)
    return max(layers.values(), key=lambda blocks: sum(problem.blocks[block].width for block in blocks), default=[])
