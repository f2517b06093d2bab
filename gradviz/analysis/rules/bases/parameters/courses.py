"""How a loss and the weights went on from the first step of an optimizer to its last one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Set
from statistics import median
from typing import NamedTuple

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import ValueFacts

MIN_LOSSES = 10


class LossCourse(NamedTuple):
    first: float
    begin: float
    """The median of the first quarter."""
    last: float
    """The median of the last quarter."""
    highest: float


def loss_course(histories: ParameterHistories, parameters: Set[int]) -> LossCourse | None:
    """The losses that reach any of these parameters, of the line with most of them; None if there are fewer than
    `MIN_LOSSES`."""
    by_line: dict[int | None, list[float]] = defaultdict(list)
    for backward, root in histories.flow.roots():
        values = histories.flow.values(root, backward)
        if values is None or values.count != 1 or values.minimum is None:
            continue
        if not parameters.isdisjoint(histories.reached_by.get(backward, ())):
            by_line[histories.log.calls[backward].call_site].append(values.minimum)
    losses = max(by_line.values(), key=len, default=[])
    if len(losses) < MIN_LOSSES:
        return None
    quarter = -(-len(losses) // 4)
    return LossCourse(losses[0], median(losses[:quarter]), median(losses[-quarter:]), max(losses))


def largest_move_per_step(histories: ParameterHistories, leaves: Iterable[int], steps: list[int]) -> float | None:
    """How far a step moves the largest and the smallest value of a matrix, as a part of the largest absolute value.

    Returns:
        The most of all matrices, on average from the first to the last of the steps after which their values are known;
        None if there is no matrix of which two are known.
    """
    found: list[float] = []
    for leaf in leaves:
        known = [
            (index, use.values)
            for index, step in enumerate(steps)
            for use in histories.log.calls[step].outputs
            if use.tensor == leaf and use.values is not None
        ]
        if len(shape_of(histories.flow, leaf)) < _MATRIX or len(known) < _MIN_KNOWN:
            continue
        (first, before), (last, after) = known[0], known[-1]
        move = _relative_move(before, after)
        if move is not None:
            found.append(move / (last - first))
    return max(found, default=None)


_MATRIX = 2
_MIN_KNOWN = 2


def _relative_move(before: ValueFacts, after: ValueFacts) -> float | None:
    """None where a value is not finite, or all are zero."""
    if before.minimum is None or before.maximum is None or after.minimum is None or after.maximum is None:
        return None
    size = max(abs(before.minimum), abs(before.maximum), abs(after.minimum), abs(after.maximum))
    move = max(abs(after.minimum - before.minimum), abs(after.maximum - before.maximum))
    return move / size if size else None
