"""Where the rows of a batch became the same: the call that put it together from samples, or the line to edit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, location_of_call, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.finding import Location
from gradviz.analysis.rules.bases.batches.batch_lines import taken_from_loader
from gradviz.analysis.rules.bases.batches.stored_batches import line_of_data_set, line_that_stores
from gradviz.graph.call_log import Call, TensorUse, ValueFacts

_PUT_TOGETHER = frozenset({
    "stack", "cat", "tensor", "as_tensor", "asarray", "vstack", "row_stack", "concat", "concatenate", "from_numpy",
})  # fmt: skip
_MAX_MAKERS = 30
_MIN_ROWS = 4


class Origin(Struct, frozen=True):
    """The call that put equal rows together; no row where the tensor came from outside of torch."""

    row: int | None
    is_put_together: bool


def origin_of_equal_rows(flow: Dataflow, before: int, tensor: int) -> Origin:
    """Where the rows of a tensor became the same, as a call received it."""
    for _ in range(_MAX_MAKERS):
        row = flow.newest_producer(tensor, before)
        if row is None:
            return Origin(None, is_put_together=True)
        call = flow.log.calls[row]
        size = shape_of(flow, tensor)[:1]
        given = next((use for use in call.inputs if _is_equal_batch(flow, row, use, size)), None)
        if given is None:
            return Origin(row, plain_name(call.function) in _PUT_TOGETHER)
        tensor, before = given.tensor, row
    return Origin(None, is_put_together=False)


def _is_equal_batch(flow: Dataflow, row: int, use: TensorUse, size: tuple[int, ...]) -> bool:
    values = flow.values_of(use, row)
    is_part = plain_name(flow.log.calls[row].function) == "getitem"
    return values is not None and values.equal_rows and (is_part or shape_of(flow, use.tensor)[:1] == size)


def stacks_of_few_arrays(flow: Dataflow) -> Iterator[tuple[int, int]]:
    """The calls that stack many tensors over the memory of few arrays, one array after the other, as an environment
    returns them that has an array for each episode; each with the number of the arrays."""
    for row, call in calls_named(flow, _STACKS):
        if len(call.inputs) >= _MANY and flow.has_step_after(row):
            owners = (flow.log.tensors[use.tensor].array_of for use in call.inputs)
            arrays = [use.tensor if owner is None else owner for use, owner in zip(call.inputs, owners, strict=True)]
            changes = sum(one != other for one, other in pairwise(arrays))
            is_of_few = len({use.tensor for use in call.inputs}) >= _MANY and _MANY * (changes + 1) <= len(arrays)
            if is_of_few and changes + 1 == len(set(arrays)):
                yield row, changes + 1
            elif _are_all_from_outside(flow, row) and _has_equal_rows(call.outputs[0].values):
                yield row, 1


def _are_all_from_outside(flow: Dataflow, row: int) -> bool:
    """Whether a call is the first to see any of its tensors, none of which torch computed, as those of
    ``from_numpy()``."""
    tensors = [flow.log.tensors[use.tensor] for use in flow.log.calls[row].inputs]
    return all(each.first_seen == row and each.producer is None and each.is_leaf for each in tensors)


def _has_equal_rows(values: ValueFacts | None) -> bool:
    return values is not None and values.equal_rows and values.minimum != values.maximum


_STACKS = frozenset({"stack", "cat", "vstack"})
_MANY = 8


def line_of_equal_rows(case: Case, origin: int) -> Location | None:
    """The line to edit: that of a data set which gave all the samples, or that which stores them."""
    flow = case.dataflow
    call = flow.log.calls[origin]
    written = _written_for_each(flow, origin, call)
    if written is not None:
        return location_of_call(flow, written)
    if len({use.tensor for use in call.inputs}) > 1:
        made = (flow.newest_producer(use.tensor, origin) for use in call.inputs)
        lines = {None if row is None else location_of_call(flow, row) for row in made}
        line = next(iter(lines))
        if len(lines) == 1 and line is not None and line != location_of_call(flow, origin):
            return line
    taken = taken_from_loader(case, origin, call)
    stored = line_that_stores(case, location_of_call(flow, origin))
    return stored if taken is None else line_of_data_set(case, taken)


def _written_for_each(flow: Dataflow, row: int, call: Call) -> int | None:
    """The call that wrote each sample into one tensor, which was then put together with itself."""
    if len(call.inputs) < _MIN_ROWS or len({use.tensor for use in call.inputs}) > 1:
        return None
    written = flow.changes(call.inputs[0].tensor, flow.step_before(row), row)[-len(call.inputs) :]
    lines = {flow.log.calls[each].call_site for each in written}
    return written[-1] if len(written) == len(call.inputs) and len(lines) == 1 else None
