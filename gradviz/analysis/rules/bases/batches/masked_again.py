"""Stored data of which each reading overwrites other places with a constant: masks that add up."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call
from gradviz.graph.model import Scalar

Place = tuple[object, ...]
VIEWS = frozenset({"getitem", "narrow", "select", "unbind", "split", "chunk"})


class MaskedAgain(NamedTuple):
    """Data whose parts have been masked again and again."""

    row: int
    """The first call that masks."""
    view: int
    """The call that took the part."""
    calls: int
    parts: int
    constant: Scalar


class _Part(NamedTuple):
    """A part of stored data."""

    view: int
    """The call that took it."""
    tensor: int
    key: Place
    """Which part of which tensor it is."""
    inner: Place
    """Where in it the changed tensor lies."""


class _Write(NamedTuple):
    row: int
    part: _Part
    place: Place | None
    """None if it is the same place each time, or all of the part."""
    constant: Scalar


def masked_again(flow: Dataflow) -> Iterator[MaskedAgain]:
    """Data that are read again and again, and of which each reading masks other places."""
    storages: dict[int, list[_Write]] = defaultdict(list)
    parts: dict[int, _Part | None] = {}
    for row, call in enumerate(flow.log.calls):
        if not _writes_constant(call) or not flow.has_step_after(row):
            continue
        tensor = call.inputs[0].tensor
        if tensor not in parts:
            parts[tensor] = _part_of(flow, tensor, row)
        part, storage = parts[tensor], flow.log.tensors[tensor].storage
        if part is not None and storage is not None:
            storages[storage].append(_Write(row, part, _place(flow, row, call, part), _constant(call)))
    for writes in storages.values():
        if _is_only_masked(flow, writes) and _is_masked_elsewhere(flow, writes):
            keys = {each.part.key for each in writes}
            yield MaskedAgain(writes[0].row, writes[0].part.view, len(writes), len(keys), writes[0].constant)


def is_state(flow: Dataflow, tensors: Iterable[int]) -> bool:
    """Whether parameters, buffers or gradients are among them: these are changed on purpose."""
    members = (flow.log.tensors[each] for each in tensors)
    return any(each.role != "tensor" or each.gradient_of is not None or each.requires_grad for each in members)


_WRITES = {"setitem": ("2",), "masked_fill": ("2", "value"), "fill": ("1", "value"), "index_fill": ("3", "value")}
_DRAWS = frozenset({
    "rand", "randn", "randint", "randperm", "bernoulli", "multinomial", "rand_like", "randn_like", "uniform", "random",
    "randint_like", "normal", "dropout",
})  # fmt: skip
_MAX_VIEWS = 4
_MIN_AGAIN = 2


def _writes_constant(call: Call) -> bool:
    """Whether a call of the program writes a constant into a tensor without gradient."""
    name = plain_name(call.function)
    if name not in _WRITES and name != "zero":
        return False
    if call.kind != "operation" or call.inside is not None or not call.inputs or call.inputs[0].requires_grad:
        return False
    is_changed = call.inputs[0].tensor in [use.tensor for use in call.changed]
    return is_changed and type(_constant(call)) in (int, float, bool)


def _constant(call: Call) -> Scalar:
    name = plain_name(call.function)
    return 0 if name == "zero" else next((call.scalars[each] for each in _WRITES[name] if each in call.scalars), None)


def _part_of(flow: Dataflow, tensor: int, row: int) -> _Part | None:
    """The part of stored data that a tensor is, or in which it lies."""
    part: _Part | None = None
    inner: Place = ()
    for _ in range(_MAX_VIEWS):
        made = flow.producers(tensor, row)
        call = flow.log.calls[made[0]] if made else None
        if call is None or plain_name(call.function) not in VIEWS or not call.inputs:
            break
        base = call.inputs[0].tensor
        if flow.log.tensors[base].storage != flow.log.tensors[tensor].storage:
            break  # a copy
        inner = inner if part is None else (*inner, part.key[1:])
        place = next((use.place for use in call.outputs if use.tensor == tensor), "")
        part = _Part(made[0], tensor, (base, place, *sorted(call.scalars.items())), inner)
        tensor, row = base, made[0]
    return part


def _place(flow: Dataflow, row: int, call: Call, part: _Part) -> Place | None:
    """Where in the part a call writes."""
    names = _WRITES.get(plain_name(call.function), ())
    bounds = [*sorted((key, value) for key, value in call.scalars.items() if key not in names), *part.inner]
    masks = [use.tensor for use in call.inputs[1:]]
    since = flow.step_before(row)
    if any(not _is_drawn(flow, each, row, since) for each in masks):
        return None
    return (*bounds, *masks) or None


def _is_drawn(flow: Dataflow, tensor: int, row: int, since: int) -> bool:
    above = flow.ancestors(tensor, row, since)
    return any(plain_name(flow.log.calls[each].function) in _DRAWS for each in above)


def _is_only_masked(flow: Dataflow, writes: list[_Write]) -> bool:
    """Whether nothing but one constant is written into data that were no constant before."""
    first = writes[0]
    values = flow.values(first.part.tensor, first.row)
    if any(each.place is None or each.constant != first.constant for each in writes):
        return False
    if values is None or values.minimum == values.maximum or is_state(flow, flow.sharing_memory(first.part.tensor)):
        return False
    changes = flow.changes(first.part.tensor, first.row - 1, len(flow.log.calls))
    return {*changes} == {each.row for each in writes}


def _is_masked_elsewhere(flow: Dataflow, writes: list[_Write]) -> bool:
    """Whether parts that were masked are masked at other places when they are read again, and trained on."""
    visits: dict[Place, dict[int, list[_Write]]] = defaultdict(lambda: defaultdict(list))
    for each in writes:
        visits[each.part.key][flow.step_before(each.row)].append(each)
    again = [found for of_part in visits.values() for found in _later_visits(of_part.values())]
    elsewhere = [found for found, is_elsewhere in again if is_elsewhere]
    return len(elsewhere) >= max(_MIN_AGAIN, len(again) / 2) and _is_trained_on(flow, elsewhere[0])


def _later_visits(visits: Iterable[list[_Write]]) -> Iterator[tuple[_Write, bool]]:
    """The last write of each visit but the first, and whether places were masked that had not been before."""
    known = set[Place | None]()
    for visit in visits:
        places = {each.place for each in visit}
        if known:
            yield visit[-1], not places <= known
        known |= places


def _is_trained_on(flow: Dataflow, write: _Write) -> bool:
    """Whether what a step computes from the masked part needs a gradient."""
    steps = flow.rows_of_kind("step")
    until = steps[bisect_left(steps, write.row)]
    users = flow.descendants(write.part.tensor, write.row, until)
    return any(use.requires_grad for user in users for use in flow.log.calls[user].outputs)
