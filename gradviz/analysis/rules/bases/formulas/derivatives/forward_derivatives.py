"""Derivatives along a direction, by ``torch.func.jvp``: the point, the direction, and what comes out."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call


class Derivative(Struct, frozen=True):
    """One call of ``jvp``."""

    made: int
    """The call that joins the point and the direction."""
    point: int
    direction: tuple[object, ...]
    """How the direction was made: the same for the same direction."""
    axis: int | None
    """The axis of the direction, if it was taken from a table by a number."""
    chosen: int
    """The call that took the direction."""
    result: int
    """The tensor of the derivative."""
    functions: tuple[str, ...]
    """What was called in between."""


_SHAPES = frozenset({"expand", "expand_as", "contiguous", "clone", "repeat", "to", "unsqueeze", "view", "reshape"})
_MAX_SHAPES = 8
_MAX_OF_ONE = 4
_MAX_GROUPS = 40
_MAX_AFTER = 6
_BOTH = 2


def same_directions(flow: Dataflow) -> Iterator[tuple[Derivative, Derivative]]:
    """Derivatives of one function at the same points, along the same direction, that one calculation takes both, where
    fewer directions than the points have axes are ever used."""
    groups: dict[tuple[object, ...], list[Derivative]] = defaultdict(list)
    derivatives = list(forward_derivatives(flow))
    known = directions(flow) if derivatives else {}
    for each in derivatives:
        shape = shape_of(flow, each.point)
        if shape and len(known[shape]) < shape[-1]:
            groups[each.point, each.direction, each.functions].append(each)
    for found in list(groups.values())[:_MAX_GROUPS]:
        for first, second in combinations(found[:_MAX_OF_ONE], _BOTH):
            if first.chosen != second.chosen and _meet(flow, first, second):
                yield first, second


def _meet(flow: Dataflow, one: Derivative, other: Derivative) -> bool:
    """Whether a call soon computes something with both: with what is in their memory outside of ``jvp``."""
    backwards = flow.rows_of_kind("backward")
    index = bisect_left(backwards, other.made)
    until = backwards[index] if index < len(backwards) else None
    below = [
        {
            row
            for tensor in flow.sharing_memory(each.result)
            for row in flow.descendants(tensor, each.made, until)[:_MAX_AFTER]
        }
        for each in (one, other)
    ]
    return not below[0].isdisjoint(below[1])


def forward_derivatives(flow: Dataflow) -> Iterator[Derivative]:
    """Those of first order, in order: a derivative of a derivative is inside of another call."""
    open_calls: list[int] = []
    has_inner = False
    for row, call in enumerate(flow.log.calls):
        name = call.function.rpartition(".")[2]
        if name == "_make_dual" and len(call.inputs) > 1:
            has_inner = bool(open_calls)
            open_calls.append(row)
        elif name == "_unpack_dual" and open_calls:
            made = open_calls.pop()
            if not open_calls and not has_inner and len(call.outputs) > 1:
                yield _derivative(flow, made, row, call)


def directions(flow: Dataflow) -> dict[tuple[int, ...], set[tuple[object, ...]]]:
    """By shape of the points: the directions of all derivatives, of any order."""
    found: dict[tuple[int, ...], set[tuple[object, ...]]] = defaultdict(set)
    for row, call in enumerate(flow.log.calls):
        if call.function.endswith("._make_dual") and len(call.inputs) > 1:
            direction, _, _ = _direction(flow, call.inputs[1].tensor, row)
            found[shape_of(flow, call.inputs[0].tensor)].add(direction)
    return found


def _derivative(flow: Dataflow, made: int, row: int, call: Call) -> Derivative:
    point, tangent = flow.log.calls[made].inputs[:2]
    direction, axis, chosen = _direction(flow, tangent.tensor, made)
    functions = tuple(flow.log.calls[each].function for each in range(made + 1, row))
    return Derivative(made, point.tensor, direction, axis, chosen, call.outputs[1].tensor, functions)


def _direction(flow: Dataflow, tensor: int, row: int) -> tuple[tuple[object, ...], int | None, int]:
    """How a direction was made, its axis, and the call that made it, before it was brought into the shape of points."""
    for _ in range(_MAX_SHAPES):
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None:
            return (tensor,), None, row
        row, name = made, plain_name(call.function)
        numbers = tuple(sorted((place, str(value)) for place, value in call.scalars.items()))
        if name in ("getitem", "select") and len(call.inputs) == 1:
            axis = call.scalars.get("2" if name == "select" else "1")
            is_table = flow.log.calls[flow.newest_producer(call.inputs[0].tensor, made) or 0].function == "torch.eye"
            source: object = "eye" if is_table else call.inputs[0].tensor
            return (source, name, *numbers), axis if type(axis) is int else None, row
        if not call.inputs:
            ones = [place for place, value in call.scalars.items() if value == 1]
            axis = int(ones[0].rpartition("[")[2].rstrip("]")) if len(ones) == 1 and "[" in ones[0] else None
            return (name, *numbers), axis, row
        if name not in _SHAPES:
            return (call.outputs[0].tensor,), None, row
        tensor = call.inputs[0].tensor
    return (tensor,), None, row
