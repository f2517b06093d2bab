"""Decoders that go step by step: which step of the target of a loss they are given at which step."""

from __future__ import annotations

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.layer_calls import RECURRENT_CELLS, RECURRENT_LAYERS
from gradviz.analysis.rules.bases.sequences.part_of_inputs import KEEPS, is_error, slice_of
from gradviz.graph.call_log import Call


class _Step(Struct, frozen=True):
    """One step of a sequence."""

    source: int
    axis: int
    at: int
    cut: int
    """The call that took it."""


def step_fed(flow: Dataflow, row: int) -> tuple[int, int] | None:
    """The cell that gets the step of the target which it is asked for, and the call that took this step of it.

    The decoder begins with a state that another part of the model computed. All steps that it gets of the target, two
    or more, are those that it is asked for; at the others, it may get its own results.
    """
    call = flow.log.calls[row]
    if not is_error(call):
        return None
    fed, first = list[tuple[int, int]](), None
    for tensor, made, wanted in _predictions(flow, call, row):
        cell = _cell_above(flow, tensor, made)
        if cell is None:
            return None
        first = cell if first is None else first
        step = _step_of(flow, flow.log.calls[cell].inputs[0].tensor, cell, _READS)
        if step is None or step.source != wanted.source:
            continue
        if (step.axis, step.at) != (wanted.axis, wanted.at):
            return None
        fed.append((cell, step.cut))
    return fed[-1] if len(fed) >= _MIN_STEPS and first is not None and _begins_with_result(flow, first) else None


_MIN_STEPS = 2
_READS = frozenset({"linear", "relu", "tanh", "dropout", "cat", "gelu"})
_MAX_CALLS = 12
_CELLS = RECURRENT_CELLS | RECURRENT_LAYERS


def _predictions(flow: Dataflow, call: Call, row: int) -> list[tuple[int, int, _Step]]:
    """What a loss compares with each step of the target: the tensor, the call that took it, and the step."""
    target = call.inputs[1].tensor
    for made, joins in flow.makers(call.inputs[0].tensor, row, _MAX_CALLS):
        name = plain_name(joins.function)
        if name in ("stack", "cat") and len(joins.inputs) > 1:
            dim = joins.scalars.get("1", joins.scalars.get("dim", 0))
            given = shape_of(flow, joins.inputs[0].tensor)
            axis = dim % max(len(given) + (name == "stack"), 1) if type(dim) is int else -1
            is_by_step = name == "stack" or given[axis] == 1
            source = _plain(flow, target, row)
            if axis < 0 or not is_by_step or shape_of(flow, source)[axis : axis + 1] != (len(joins.inputs),):
                return []
            uses = enumerate(joins.inputs)
            return [(use.tensor, made, _Step(source, axis, at, row)) for at, use in uses]
        if name not in KEEPS:
            break
    return []


def _plain(flow: Dataflow, tensor: int, row: int) -> int:
    """The tensor before its type was changed."""
    for _, call in flow.makers(tensor, row, _MAX_CALLS):
        if plain_name(call.function) not in ("contiguous", "float", "to", "clone", "detach"):
            break
        tensor = call.inputs[0].tensor
    return tensor


def _cell_above(flow: Dataflow, tensor: int, row: int) -> int | None:
    """The cell of which a prediction is computed, with nothing but layers in between."""
    for made, call in flow.makers(tensor, row, _MAX_CALLS):
        name = plain_name(call.function)
        if name in _CELLS:
            is_one_step = name in RECURRENT_CELLS or 1 in shape_of(flow, call.inputs[0].tensor)[:2]
            return made if is_one_step else None
        if name not in KEEPS | _READS:
            break
    return None


def _step_of(flow: Dataflow, tensor: int, row: int, through: frozenset[str]) -> _Step | None:
    """The single step of a sequence that a tensor is, or that layers computed it from."""
    for made, call in flow.makers(tensor, row, _MAX_CALLS):
        name = plain_name(call.function)
        taken = slice_of(flow, call, name, call.outputs[0].tensor) if call.outputs else None
        if taken is not None:
            source = _plain(flow, call.inputs[0].tensor, made)
            return _Step(source, taken.axis, taken.start, made) if taken.length == 1 else None
        if name not in KEEPS | through:
            break
    return None


def _begins_with_result(flow: Dataflow, cell: int) -> bool:
    """Whether the state that a cell begins with was computed with parameters."""
    return any(use.requires_grad for use in flow.log.calls[cell].inputs if use.place.partition("[")[0] == "1")
