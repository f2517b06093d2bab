"""The two weights with which a value is split between the grid points below and above it."""

from __future__ import annotations

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, TensorUse


class Half(Struct, frozen=True):
    """The weight of one of the two neighbours."""

    row: int
    """The call that computed it."""
    tensor: int
    place: int
    """The tensor that was rounded."""
    is_below: bool
    """Whether it is the share of the point below, which is as large as the distance from the point above."""
    zeros: int
    """How many of these shares are 0."""


_CAST = frozenset({
    "long", "float", "to", "int", "type", "double", "clamp", "view", "reshape", "unsqueeze", "flatten", "squeeze",
    "expand", "expand_as", "contiguous", "transpose", "clone", "clamp_min", "clamp_max", "type_as", "detach",
})  # fmt: skip
_JOINS = frozenset({"stack", "cat", "hstack", "vstack", "concat", "concatenate", "dstack", "column_stack"})
_TURNS = frozenset({"neg", "abs", "absolute", "negative"})
_WRITES = frozenset({
    "scatter_add", "index_add", "index_put", "setitem", "scatter", "scatter_reduce", "put", "bincount",
})  # fmt: skip
_PRODUCTS = frozenset({"matmul", "einsum", "bmm", "baddbmm", "addcmul"})
_SUMS = frozenset({"add", "sum"})
_BOTH = 2
_MAX_CALLS = 6
_MAX_FOLLOWED = 24


def half_at(flow: Dataflow, row: int, call: Call) -> Half | None:
    """The weight that a call computes: the distance of a value from what it was rounded to."""
    name, inputs = plain_name(call.function), call.inputs
    values = call.outputs[0].values if call.outputs else None
    if values is None:
        return None
    made = call.outputs[0].tensor
    if name == "frac" or (name == "remainder" and call.scalars.get("1", call.scalars.get("other")) == 1):
        return Half(row, made, inputs[0].tensor, is_below=False, zeros=values.zeros)
    if name == "sub" and len(inputs) == _BOTH:
        for rounded, place in (inputs, inputs[::-1]):
            direction = _rounded(flow, rounded, row, place.tensor)
            if direction is not None:
                return Half(row, made, place.tensor, direction == "ceil", values.zeros)
    return None


def are_combined(flow: Dataflow, below: Half, above: Half) -> bool:
    """Whether both weights are written somewhere, or multiply what is then added up, as they are."""
    own = frozenset({below.tensor, above.tensor})
    ends = [_ends_of(flow, half, own) for half in (below, above)]
    if None in ends:
        return False
    one, other = (end or {} for end in ends)
    writes = [row for row in (*one, *other) if plain_name(flow.log.calls[row].function) in _WRITES]
    if writes and all(any(row in end for row in writes) for end in (one, other)):
        return not _is_written_otherwise(flow, writes)
    # Both are summands, or both are in one tensor whose elements are added up: what else is added may be the rest.
    return any(
        (one[row] != other[row]) is (plain_name(flow.log.calls[row].function) == "add")
        for row in one.keys() & other.keys()
        if one[row] is not None and other[row] is not None
    )


def _ends_of(flow: Dataflow, half: Half, own: frozenset[int]) -> dict[int, int | None] | None:
    """The calls that write a weight, or add it up, with the tensor that they got if it was multiplied with something
    before; None if something is added to it in place."""
    waiting, found, count = [(half.tensor, half.row, False)], dict[int, int | None](), 0
    while waiting and count < _MAX_FOLLOWED:
        tensor, after, is_factor = waiting.pop()
        count += 1
        for row in flow.users(tensor, after):
            call = flow.log.calls[row]
            name = plain_name(call.function)
            if any(use.tensor == tensor for use in call.changed) and name != "mul":
                return None
            if name in _WRITES or name in _SUMS or name in _PRODUCTS:
                found[row] = tensor if is_factor or name in _PRODUCTS else found.get(row)
            elif name == "mul" and len(call.inputs) == _BOTH and own.isdisjoint(_others(call, tensor)):
                waiting.append((call.outputs[0].tensor, row, True))
            elif name in _CAST or name in _JOINS or name in _TURNS:
                waiting += [(use.tensor, row, is_factor) for use in call.outputs[:1]]
    return found


def _others(call: Call, tensor: int) -> set[int]:
    return {use.tensor for use in call.inputs if use.tensor != tensor}


def _is_written_otherwise(flow: Dataflow, writes: list[int]) -> bool:
    """Whether something else is written to the same place: what is missing there, perhaps."""
    first, last = min(writes), max(writes)
    until = next((row for row in flow.rows_of_kind("backward") if row > last), len(flow.log.calls))
    places = {flow.log.calls[row].inputs[0].tensor for row in writes if flow.log.calls[row].changed}
    return any(row not in writes for place in places for row in flow.changes(place, first, until))


def _rounded(flow: Dataflow, use: TensorUse, row: int, place: int) -> str | None:
    """``floor`` or ``ceil``, if a tensor is another one rounded so, perhaps in another dtype."""
    for _, call in flow.makers(use.tensor, row, _MAX_CALLS):
        name = plain_name(call.function)
        if name in ("floor", "ceil", "trunc"):
            is_same = bool(call.inputs) and call.inputs[0].tensor == place
            return ("ceil" if name == "ceil" else "floor") if is_same else None
        if name not in _CAST:
            return None
    return None
