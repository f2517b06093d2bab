"""Losses of regressions whose target is the end of the very window that the model reads, or begins with this end."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import Shape, shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, TensorUse

KEEPS = frozenset({
    "view", "reshape", "flatten", "squeeze", "unsqueeze", "contiguous", "float", "to", "clone", "detach", "getitem",
    "transpose", "permute", "double",
})  # fmt: skip
_SPLITS = frozenset({"split", "chunk", "tensor_split", "split_with_sizes"})
_MAX_CALLS = 16
_BOTH = 2
_SHARE = 2


class _Window(Struct, frozen=True):
    """Which part of which tensor another one is."""

    source: int
    picks: tuple[object, ...]
    """By what rows were chosen."""
    axis: int | None
    """The axis behind the first of which it is a part; None if it has all of each."""
    start: int
    length: int

    def span(self, shape: Shape, axis: int) -> tuple[int, int]:
        return (self.start, self.start + self.length) if self.axis == axis else (0, shape[axis])


class Slice(Struct, frozen=True):
    """A part of one axis."""

    axis: int
    start: int
    length: int


class TargetRead(Struct, frozen=True):
    """A loss whose target the model has read."""

    cut: int
    """The call that cut the target out."""
    read: int
    """The call with parameters that takes the window."""
    length: int
    """Of the window."""
    shared: int
    """How many steps of the target the window has."""
    of: int
    """How many steps the target has."""
    made: int = -1
    """The call that cut it out first, if that is known."""


def target_read(flow: Dataflow, row: int) -> TargetRead | None:
    """Whether the model gets the target of a loss, or its first steps, as the last part of the window that it reads,
    unchanged."""
    call = flow.log.calls[row]
    if not is_error(call):
        return None
    wanted = {each.source: (each, cut) for each, cut in _windows(flow, call.inputs[1].tensor, row) if each.axis}
    if not wanted:
        return None
    for each, use in data_read(flow, call.inputs[0].tensor, row):
        for given, _ in _windows(flow, use.tensor, each):
            target, cut = wanted.get(given.source, (None, 0))
            steps = None if target is None else _steps_if_read(flow, given, target)
            if steps is not None and not is_cut_from(flow, call.inputs[0].tensor, row, steps[0]):
                return TargetRead(cut, each, *steps)
    return None


def steps_read(window: tuple[int, int], target: tuple[int, int]) -> int:
    """How many steps of a target a window has, if they are few and the last ones of the window; else 0.

    They are all steps of the target, or half of them at most: a target that is the window one step later is that of
    each position.
    """
    (start, end), (first, last) = window, target
    shared = min(end, last) - first
    is_small = 0 < shared * _SHARE <= end - start and start <= first
    return shared if is_small and (last == end or (last > end and shared * _SHARE <= last - first)) else 0


def is_error(call: Call) -> bool:
    """Whether a call compares a prediction with a target that has no gradient."""
    return [use.requires_grad for use in call.inputs] == [True, False]


def data_read(flow: Dataflow, tensor: int, row: int) -> Iterator[tuple[int, TensorUse]]:
    """The data that calls with parameters take on the way to a prediction, in one step."""
    for each in flow.ancestors(tensor, row, flow.step_before(row)):
        roles = [(use, flow.log.tensors[use.tensor].role) for use in flow.log.calls[each].inputs]
        if any(role == "parameter" for _, role in roles):
            yield from ((each, use) for use, role in roles if role == "tensor" and not use.requires_grad)


def _steps_if_read(flow: Dataflow, given: _Window, target: _Window) -> tuple[int, int, int] | None:
    """The length of the window that a model reads, how many steps of the target it has, and of how many."""
    shape, axis = shape_of(flow, target.source), target.axis
    if axis is None or given.picks != target.picks or given.axis not in (None, axis):
        return None
    window, wanted = given.span(shape, axis), target.span(shape, axis)
    shared = steps_read(window, wanted)
    return (window[1] - window[0], shared, wanted[1] - wanted[0]) if shared else None


def is_cut_from(flow: Dataflow, tensor: int, row: int, length: int) -> bool:
    """Whether a prediction is a part of results for all positions of a window, as of an autoencoder."""
    for _, call in flow.makers(tensor, row, _MAX_CALLS):
        if plain_name(call.function) not in KEEPS | {"select", "narrow", "index_select"} or not call.inputs:
            return False
        given, made = (shape_of(flow, use.tensor) for use in (call.inputs[0], call.outputs[0]))
        if prod(given) != prod(made) and length in given:
            return True
    return False


def _windows(flow: Dataflow, tensor: int, row: int) -> Iterator[tuple[_Window, int]]:
    """A tensor as a part of what it was cut from, at each call of these, with the last call that cut a window."""
    picks: tuple[object, ...] = ()
    axis, start, length, cut = None, 0, 0, row
    for _ in range(_MAX_CALLS):
        yield _Window(tensor, picks, axis, start, length), cut
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or not call.inputs or call.kind != "operation":
            return
        given, result = shape_of(flow, call.inputs[0].tensor), shape_of(flow, tensor)
        name = plain_name(call.function)
        part = slice_of(flow, call, name, tensor)
        if name in ("getitem", "index_select") and len(call.inputs) == _BOTH and given[1:] == result[1:]:
            picks = (*picks, call.inputs[1].tensor)
        elif part is not None and part.axis == 0:
            picks = (*picks, (part.start, part.length))
        elif part is not None and axis in (None, part.axis):
            start, length = part.start + start, part.length if axis is None else length
            axis, cut = part.axis, made
        elif name not in KEEPS or prod(given) != prod(result) or (axis is not None and given != result):
            return
        tensor, row = call.inputs[0].tensor, made


def slice_of(flow: Dataflow, call: Call, name: str, result: int) -> Slice | None:
    """The part of one axis that a call takes by numbers."""
    if len(call.inputs) != 1:
        return None
    given, made = shape_of(flow, call.inputs[0].tensor), shape_of(flow, result)
    if not given:
        return None
    if name in _SPLITS or name == "unbind":
        return _of_several(flow, call, name, result)
    dim, start = (call.scalars.get(place, call.scalars.get(word)) for place, word in (("1", "dim"), ("2", "start")))
    if name == "narrow" and type(dim) is int and type(start) is int:
        return Slice(dim % len(given), start % given[dim], made[dim])
    index = call.scalars.get("2", call.scalars.get("index"))
    if name == "select" and type(dim) is int and type(index) is int:
        return Slice(dim % len(given), index % given[dim], 1)
    return _indexed(call, given, made) if name == "getitem" else None


def _indexed(call: Call, given: Shape, made: Shape) -> Slice | None:
    """What ``x[:, 2:5]`` or ``x[:, -1]`` takes."""
    numbers = {place: value for place, value in call.scalars.items() if type(value) is int}
    if len(made) == len(given):
        changed = [axis for axis, pair in enumerate(zip(given, made, strict=True)) if pair[0] != pair[1]]
        # Of a list of places, x[:, [0, 1, 3]], no number is known: they may be any, in any order.
        is_slice = any(place.endswith((".start", ".stop")) for place in numbers)
        if len(changed) != 1 or not is_slice or any(place.endswith(".step") for place in numbers):
            return None
        begin = next((value for place, value in numbers.items() if place.endswith(f"[{changed[0]}].start")), 0)
        if changed[0] == 0:
            begin = numbers.get("1.start", begin)
        return Slice(changed[0], begin % given[changed[0]], made[changed[0]])
    single = [place for place in numbers if "." not in place]
    if len(made) != len(given) - 1 or len(single) != 1:
        return None
    axis = 0 if single[0] == "1" else int(single[0].partition("[")[2].rstrip("]"))
    if axis >= len(given) or (*given[:axis], *given[axis + 1 :]) != made:
        return None
    return Slice(axis, numbers[single[0]] % given[axis], 1)


def _of_several(flow: Dataflow, call: Call, name: str, result: int) -> Slice | None:
    """One of the parts that ``split`` and others give."""
    given = shape_of(flow, call.inputs[0].tensor)
    dim = call.scalars.get("dim", call.scalars.get("1" if name == "unbind" else "2", 0))
    if type(dim) is not int:
        return None
    dim, start = dim % len(given), 0
    for use in call.outputs:
        size = 1 if name == "unbind" else shape_of(flow, use.tensor)[dim]
        if use.tensor == result:
            return Slice(dim, start, size)
        start += size
    return None
