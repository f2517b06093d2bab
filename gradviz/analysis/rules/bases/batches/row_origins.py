"""From where the rows of a tensor were taken: whether two tensors hold the same samples in the same order."""

from __future__ import annotations

from math import prod
from typing import Literal

from msgspec import Struct

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, TensorUse

Rows = tuple[int | None, ...]


class Origin(Struct, frozen=True):
    """How the samples of a tensor were chosen. Equal kinds and rows mean the same samples in the same order."""

    kind: Literal["index", "slice", "batch", "whole", "drawn"]
    """By a tensor of indices; as a slice; put together one by one, as a loader does; all of them; drawn at random
    for this step."""
    rows: Rows
    row: int
    """The call that chose them."""


def origin_of_rows(flow: Dataflow, use: TensorUse, row: int) -> Origin | None:
    """How the samples along the first axis of an input of a call were chosen; None if that is not known."""
    tensor, before = use.tensor, row
    count = shape_of(flow, tensor)[:1]
    for _ in range(_MAX_MAKERS):
        made = flow.producers(tensor, before)
        if not made:
            first = flow.log.tensors[tensor].first_seen
            return Origin("whole", count, row if first is None else first)
        before = made[-1]
        call = flow.log.calls[before]
        found = _chosen(flow, call, before, count)
        if found is not None:
            return found
        given = None if _is_end(call) else _with_as_many_rows(flow, call, count)
        if given is None:
            return None
        tensor = given
    return None


def are_same_samples(flow: Dataflow, one: tuple[TensorUse, int], other: tuple[TensorUse, int]) -> bool:
    """Whether two tensors, each as a call received it, have the same samples in the same order: both were computed from
    one tensor without a change of the order, or chosen in the same way."""
    if are_of_one_tensor(flow, one, other):
        return True
    origins = [origin_of_rows(flow, use, row) for use, row in (one, other)]
    known = [(each.kind, each.rows) for each in origins if each is not None and each.kind != "drawn"]
    return len(known) == len(origins) and known[0] == known[1]


def are_of_one_tensor(flow: Dataflow, one: tuple[TensorUse, int], other: tuple[TensorUse, int]) -> bool:
    """Whether two tensors, each as a call received it, were computed from one tensor of data without a change of the
    order of its rows."""
    return not _made_from(flow, *one).isdisjoint(_made_from(flow, *other))


def _made_from(flow: Dataflow, use: TensorUse, row: int) -> set[int]:
    """Tensors from which one was computed without a change of the order of samples; itself included."""
    count = prod(shape_of(flow, use.tensor)[:1])
    found, waiting = {use.tensor}, [(use.tensor, row)]
    while waiting and len(found) < _MAX_MAKERS:
        tensor, before = waiting.pop()
        made = flow.newest_producer(tensor, before)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None:
            continue
        steps = _steps_from_row_to_row(flow, call, made)
        if steps is not None and steps not in found:
            found.add(steps)
            waiting.append((steps, made))
        if _is_end(call) or _chosen(flow, call, made, (count,)) is not None:
            continue
        for given in call.inputs if _keeps_order(flow, call) else ():
            is_data = flow.log.tensors[given.tensor].role == "tensor" and not given.is_live_leaf
            if is_data and given.tensor not in found and prod(shape_of(flow, given.tensor)) >= count:
                found.add(given.tensor)
                waiting.append((given.tensor, made))
    return found


def _keeps_order(flow: Dataflow, call: Call) -> bool:
    """Whether a call takes no rows by their numbers."""
    is_index = (use.place.startswith("1") and len(shape_of(flow, use.tensor)) > 0 for use in call.inputs[1:])
    return plain_name(call.function) not in ("getitem", "setitem", "index_put") or not any(is_index)


def _steps_from_row_to_row(flow: Dataflow, call: Call, row: int) -> int | None:
    """The tensor of which ``cat([x[:1], x.diff()])`` or ``cat([x[:1], x[1:] - x[:-1]])`` takes the steps: each stands
    where the row stood."""
    if plain_name(call.function) != "cat" or len(call.inputs) != _PARTS:
        return None
    sources = [_sliced_from(flow, use.tensor, row) for use in call.inputs]
    is_of_one = sources[0] == sources[1] and sources[0] is not None
    return sources[0] if is_of_one and _count(flow, sources[0]) == _count(flow, call.outputs[0].tensor) else None


def _sliced_from(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The tensor of which another one is a slice, or the difference of two slices."""
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    if made is None or call is None:
        return None
    if plain_name(call.function) in ("getitem", "narrow", "diff") and len(call.inputs) == 1:
        return call.inputs[0].tensor
    if plain_name(call.function) == "sub" and len(call.inputs) == _PARTS:
        slices = {_sliced_from(flow, use.tensor, made) for use in call.inputs if _is_slice(flow, use.tensor, made)}
        return slices.pop() if len(slices) == 1 else None
    return None


def _is_slice(flow: Dataflow, tensor: int, row: int) -> bool:
    made = flow.newest_producer(tensor, row)
    return made is not None and plain_name(flow.log.calls[made].function) in ("getitem", "narrow")


def _count(flow: Dataflow, tensor: int | None) -> tuple[int, ...]:
    return () if tensor is None else shape_of(flow, tensor)[:1]


_PARTS = 2


_MAX_MAKERS = 60
_DRAWS = frozenset({"rand", "randn", "randint", "bernoulli", "normal", "rand_like", "randn_like", "exponential"})
_FROM_OUTSIDE = frozenset({"tensor", "as_tensor", "from_numpy"})
_FACTORIES = frozenset({
    "arange", "ones", "zeros", "linspace", "full", "ones_like", "zeros_like", "eye", "empty", "logspace", "randperm",
})  # fmt: skip
_REORDER = frozenset({
    "sort", "argsort", "topk", "flip", "roll", "cat", "index_select", "gather", "take_along_dim", "scatter", "unique",
    "repeat", "repeat_interleave", "expand", "take", "searchsorted", "bucketize", "tril", "triu",
})  # fmt: skip


def _is_end(call: Call) -> bool:
    name = plain_name(call.function)
    return name in _FACTORIES | _REORDER or call.kind not in ("operation", "custom")


def _chosen(flow: Dataflow, call: Call, row: int, count: tuple[int, ...]) -> Origin | None:
    name = plain_name(call.function)
    if name in ("getitem", "index_select") and len(call.inputs) > 1 and not call.inputs[0].requires_grad:
        return Origin("index", _of_index(flow, call.inputs[1].tensor, row), row)
    if name == "getitem" and shape_of(flow, call.inputs[0].tensor)[:1] != count:
        bounds = [value for place, value in sorted(call.scalars.items()) if place.startswith(("1.st", "1[0].st"))]
        known = tuple(value for value in bounds if type(value) is int)
        return Origin("slice", (*shape_of(flow, call.inputs[0].tensor)[:1], *known), row) if known else None
    if name in ("split", "chunk", "unbind") and call.inputs:
        return None
    is_along_first = name == "pad_sequence" or (name == "stack" and axis_of(call, len(count)) in (0, None))
    if is_along_first and (len(call.inputs),) == count:
        return Origin("batch", (flow.step_before(row), *count), row)
    if name in _FROM_OUTSIDE:
        return Origin("whole", count, row)
    if name in _DRAWS:
        is_for_step = flow.step_before(row) > 0
        return Origin("drawn" if is_for_step else "whole", count, row)
    return None


def _of_index(flow: Dataflow, tensor: int, row: int) -> Rows:
    """A tensor of indices, or the part of another one that it is."""
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    if call is None or plain_name(call.function) != "getitem" or len(call.inputs) != 1:
        return (tensor,)
    bounds = [value for _, value in sorted(call.scalars.items()) if type(value) is int]
    return (call.inputs[0].tensor, *bounds) if bounds else (tensor,)


def _with_as_many_rows(flow: Dataflow, call: Call, count: tuple[int, ...]) -> int | None:
    """The first input with a row for each sample, other than parameters."""
    for use in call.inputs:
        is_parameter = flow.log.tensors[use.tensor].role == "parameter"
        if not is_parameter and shape_of(flow, use.tensor)[:1] == count:
            return use.tensor
    return None
