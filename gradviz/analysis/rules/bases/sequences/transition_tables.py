"""Tables of log-probabilities of the next state, in a recursion over a sequence: over which axis they add up to 1, and
over which axis the recursion sums."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, TensorUse


class Table(Struct, frozen=True):
    """A square table, normalized by a call."""

    made: int
    axis: int
    size: int


class _Use(Struct, frozen=True):
    """A call that sums over the states before, and what the recursion has added to the sum before this one."""

    row: int
    axis: int
    before: int | None
    """The call of the step before."""
    observed: int | None
    """The number of the observation that was added after it."""


_SQUARE = 2
_BOTH = 2
_MIN_USES = 3
_MAX_STEPS = 6
_SHAPES = frozenset({"unsqueeze", "getitem", "view", "reshape", "transpose", "squeeze", "expand"})


def tables_summed_over_their_own_axis(flow: Dataflow) -> Iterator[tuple[Table, int]]:
    """The tables of forward recursions that sum over the axis over which the table adds up to 1, each with the last
    call that sums.

    A recursion from the end to the beginning does so, and is left alone: its observations come in falling order.
    """
    tables: dict[int, Table] = {}
    uses: dict[int, list[_Use]] = defaultdict(list)
    summed: dict[int, int] = {}
    """By result of a sum: its call."""
    for row, call in enumerate(flow.log.calls):
        table = _normalized(flow, row, call)
        if table is not None:
            tables[call.outputs[0].tensor] = table
        if plain_name(call.function) != "logsumexp" or not tables or not call.live_inputs:
            continue
        added = flow.newest_producer(call.inputs[0].tensor, row)
        if added is None or plain_name(flow.log.calls[added].function) != "add":
            continue
        of_table = next((use.tensor for use in flow.log.calls[added].inputs if use.tensor in tables), None)
        state = next((use for use in flow.log.calls[added].inputs if use.tensor != of_table), None)
        rank = len(shape_of(flow, call.inputs[0].tensor))
        axis = axis_of(call, rank)
        if of_table is not None and state is not None and axis is not None:
            uses[of_table].append(_Use(row, axis - (rank - _SQUARE), *_before(flow, state, added, summed)))
            summed[call.outputs[0].tensor] = row
    for tensor, found in uses.items():
        if _is_forward(found) and all(use.axis == tables[tensor].axis for use in found):
            yield tables[tensor], found[-1].row


def _normalized(flow: Dataflow, row: int, call: Call) -> Table | None:
    """A table that ``log_softmax(x, axis)`` or ``x - x.logsumexp(axis, keepdim=True)`` made."""
    name = plain_name(call.function)
    shape = shape_of(flow, call.outputs[0].tensor) if name in ("log_softmax", "sub") and call.outputs else ()
    if len(shape) != _SQUARE or shape[0] != shape[1] or not call.live_inputs:
        return None
    axis = axis_of(call, _SQUARE) if name == "log_softmax" else None
    if name == "sub" and len(call.inputs) == _BOTH:
        made = flow.newest_producer(call.inputs[1].tensor, row)
        sums = None if made is None else flow.log.calls[made]
        is_own = sums is not None and plain_name(sums.function) == "logsumexp"
        if sums is not None and is_own and sums.inputs[0].tensor == call.inputs[0].tensor:
            axis = axis_of(sums, _SQUARE)
    return None if axis is None else Table(row, axis, shape[0])


def _before(flow: Dataflow, state: TensorUse, row: int, summed: dict[int, int]) -> tuple[int | None, int | None]:
    """The sum from which a state was made, and the number of the observation that was added to it."""
    tensor, observed = state.tensor, None
    for _ in range(_MAX_STEPS):
        if tensor in summed:
            return summed[tensor], observed
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None:
            break
        row, name = made, plain_name(call.function)
        if name == "add" and len(call.inputs) == _BOTH:
            known = next((use.tensor for use in call.inputs if use.tensor in summed), None)
            other = next((use.tensor for use in call.inputs if use.tensor != known), None)
            if known is None or other is None:
                break
            tensor, observed = known, _number(flow, other, row)
        elif name in _SHAPES and call.inputs:
            tensor = call.inputs[0].tensor
        else:
            break
    return None, None


def _number(flow: Dataflow, tensor: int, row: int) -> int | None:
    """Which of the elements along an axis a tensor is: of ``unbind()``, or of ``x[:, 3]``."""
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    if call is None:
        return None
    if plain_name(call.function) == "unbind":
        places = [use.place for use in call.outputs]
        return next((places.index(use.place) for use in call.outputs if use.tensor == tensor), None)
    if plain_name(call.function) in ("getitem", "select"):
        numbers = [value for value in call.scalars.values() if type(value) is int]
        return numbers[-1] if numbers else None
    return None


def _is_forward(uses: list[_Use]) -> bool:
    """Whether each sum continues the one before it, with observations in rising order."""
    if len(uses) < _MIN_USES or any(each.before != one.row for one, each in pairwise(uses)):
        return False
    numbers = [each.observed for each in uses[1:]]
    return (
        all(one is not None and other is not None and 0 <= one < other for one, other in pairwise(numbers))
        and len(numbers) >= _BOTH
    )
