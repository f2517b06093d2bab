"""Where axes of copies go in calls that turn a tensor, broadcast it or compute with its axes by name."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.dataflow.broadcasts import Shape
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.analysis.rules.bases.copies.axes_of_copies import Axes, Axis
from gradviz.graph.call_log import Call


def aligned(shape: Shape, axes: Axes, result: Shape) -> Iterator[tuple[int, Axis]]:
    """The axes of an input that a result has as well, with their places there."""
    ahead = len(result) - len(shape)
    is_broadcast = ahead >= 0 and all(a in (1, b) for a, b in zip(shape, result[ahead:], strict=True))
    for place, axis in enumerate(axes):
        at = place + ahead if is_broadcast else place
        if at >= len(result) or (not is_broadcast and shape[place] != result[place]):
            return
        if axis is not None and shape[place] == result[at]:
            yield at, axis


def turned(call: Call, name: str, axes: Axes) -> Axes | None:
    """The axes after ``transpose``, ``permute`` and the like."""
    rank = len(axes)
    told = [value for _, value in sorted(call.scalars.items()) if type(value) is int]
    if name in ("t", "T", "mT"):
        return (*axes[:-2], *reversed(axes[-2:]))
    if name == "permute":
        return tuple(axes[each] for each in told) if len(told) == rank else None
    if len(told) != _TWO:
        return None
    order = list(axes)
    one, other = told
    if name == "movedim":
        order.insert(other % rank, order.pop(one % rank))
    else:
        order[one], order[other] = order[other], order[one]
    return tuple(order)


_TWO = 2


def einsum_axes(call: Call, given: list[Axes]) -> Axes | None:
    """The axes of the result of ``einsum``; None where its equation leaves some of them out."""
    equation = equation_of(call)
    if not equation.is_plain:
        return None
    named = zip("".join(equation.terms), (axis for axes in given for axis in axes), strict=False)
    known = {letter: axis for letter, axis in named if axis is not None}
    return tuple(known.get(letter) for letter in equation.result)
