"""Tables with a row for each position of a sequence, which are added to a batch of sequences: along which axis they lie
tells which axis is time."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.batches.axis_sources import Label
from gradviz.graph.call_log import Call, TensorUse

_BOTH = 2
_MOST_CALLS = 6
_POSITIONAL = re.compile(r"(^|[._])(pe|pos|\w*position\w*|pos_?(emb|enc|table)\w*|\w+_(pe|pos))$", re.IGNORECASE)
_KEEPS = frozenset({"unsqueeze", "view", "reshape", "to", "detach", "float", "clone", "expand"})
_LOOKS_UP = frozenset({"embedding", "getitem", "index_select"})


class AddedPositions(Struct, frozen=True):
    """A table of positions that is added to a batch."""

    row: int
    """The call that adds it."""
    table: int
    axis: int
    """Of what it is added to: the axis along which its rows lie."""
    length: int


def added_positions(flow: Dataflow, labels: Iterable[Label], row: int) -> AddedPositions | None:
    """The table of positions that was added along an axis, which is that of all these tensors, before a call."""
    for given, axis in labels:
        made = flow.newest_producer(given, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or plain_name(call.function) != "add" or len(call.inputs) != _BOTH:
            continue
        for use, other in (call.inputs, call.inputs[::-1]):
            if (
                lies_along(flow, use, given, axis)
                and not is_turned(flow, made, other)
                and (table := _table_of(flow, use, made)) is not None
            ):
                return AddedPositions(made, table, axis, shape_of(flow, given)[axis])
    return None


def lies_along(flow: Dataflow, use: TensorUse, result: int, axis: int) -> bool:
    """Whether what is added has a row for each place along one axis, and the same for all places of the others."""
    shape, given = shape_of(flow, result), shape_of(flow, use.tensor)
    padded = (*((1,) * (len(shape) - len(given))), *given)
    wanted = [size if at in (axis, len(shape) - 1) else 1 for at, size in enumerate(shape)]
    return len(shape) > _BOTH and axis < len(shape) - 1 and shape[axis] > 1 and list(padded) == wanted


def _table_of(flow: Dataflow, use: TensorUse, row: int) -> int | None:
    """The table from which what is added was taken, if its rows are positions: cut to a length, looked up by numbers in
    their order, computed from such numbers, or called so."""
    tensor, before = use.tensor, row
    for _ in range(_MOST_CALLS):
        if is_called_positions(flow, tensor):
            return tensor
        made = flow.newest_producer(tensor, before)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or not call.inputs or made < flow.step_before(row):
            return None
        if is_beginning(call):
            table = call.inputs[0].tensor
            return table if is_of_model(flow, table, made) else None
        if (looked_up := table_in_order(flow, made, call)) is not None:
            return looked_up if is_longer(flow, looked_up, use.tensor) or is_called_positions(flow, looked_up) else None
        if plain_name(call.function) not in _KEEPS:
            return tensor if _is_from_numbers(flow, tensor, row) else None
        tensor, before = call.inputs[0].tensor, made
    return None


def is_called_positions(flow: Dataflow, tensor: int) -> bool:
    """Whether it is a tensor of the model whose name says that its rows are positions."""
    logged = flow.log.tensors[tensor]
    names = (re.sub(r"\.weight$", "", name) for name in logged.names)
    return logged.role != "tensor" and any(_POSITIONAL.search(name) for name in names)


def is_beginning(call: Call) -> bool:
    """Whether a call takes the first elements along an axis: ``table[:n]``, ``table[:, :n]``."""
    name = plain_name(call.function)
    if name == "narrow":
        return call.scalars.get("2", call.scalars.get("start")) == 0
    return name == "getitem" and len(call.inputs) == 1 and any(place.endswith(".stop") for place in call.scalars)


def is_longer(flow: Dataflow, table: int, part: int) -> bool:
    """Whether a table has more rows than were taken of it."""
    return max(shape_of(flow, table)[:-1], default=0) > max(shape_of(flow, part)[:-1], default=0)


def is_of_model(flow: Dataflow, table: int, row: int) -> bool:
    """Whether no call of this step made a table."""
    made = flow.producers(table, row)[-1:]
    return flow.log.tensors[table].role != "tensor" or not made or made[0] < flow.step_before(row)


def table_in_order(flow: Dataflow, row: int, call: Call) -> int | None:
    """The table whose rows 0, 1, 2 ... a call takes: ``embedding(torch.arange(n), table)``."""
    name = plain_name(call.function)
    if name not in _LOOKS_UP or len(call.inputs) != _BOTH:
        return None
    index, table = call.inputs if name == "embedding" else reversed(call.inputs)
    for _, source in flow.makers(index.tensor, row, _MOST_CALLS):
        if plain_name(source.function) not in _KEEPS:
            return table.tensor if plain_name(source.function) == "arange" else None
    return None


def _is_from_numbers(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether it has sines of the numbers 0, 1, 2 ..., and no data: it is computed in this step from nothing else."""
    above = [flow.log.calls[each] for each in flow.ancestors(tensor, row, flow.step_before(row))]
    made = {use.tensor for call in above for use in call.outputs}
    names = {plain_name(call.function) for call in above}
    is_closed = all(use.tensor in made for call in above for use in call.inputs)
    return is_closed and "arange" in names and not names.isdisjoint(("sin", "cos"))


def is_turned(flow: Dataflow, row: int, use: TensorUse) -> bool:
    """Whether the first two axes were exchanged: those of data, or of the ids before their rows were looked up."""
    shape = shape_of(flow, use.tensor)
    tensor = use.tensor
    for _ in range(_MOST_CALLS):
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or not call.inputs:
            return False
        name, given, turned = plain_name(call.function), shape_of(flow, call.inputs[0].tensor), shape_of(flow, tensor)
        if name in _TURNS:
            return len(given) >= _BOTH and turned[:_BOTH] == (given[1], given[0]) and turned[:_BOTH] == shape[:_BOTH]
        if name not in _KEEPS_ROWS or turned[:_BOTH] != shape[:_BOTH]:
            return False
        tensor, row = call.inputs[0].tensor, made
    return False


_KEEPS_ROWS = frozenset({
    "embedding", "mul", "div", "dropout", "layer_norm", "linear", "relu", "gelu", "float", "to", "contiguous", "clone",
    "one_hot",
})  # fmt: skip
_TURNS = frozenset({"transpose", "permute", "movedim", "t", "T", "mT"})
