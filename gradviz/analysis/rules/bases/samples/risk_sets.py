"""Scores from which the logarithm of the cumulative sum of their exponentials is subtracted: the risk sets of Cox.

A product with a triangle of ones is such a sum as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from msgspec import Struct

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import calls_named, plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, TensorUse


class RiskSet(Struct, frozen=True):
    """Scores that are compared with the cumulative sum of their exponentials."""

    compared: int
    """The call that subtracts, or divides."""
    summed: int
    """The call that sums."""
    scores: int
    """What it sums; for a product with a triangle of ones, the other tensor."""
    is_exponential: bool = False
    """Whether the call takes the exponentials itself."""
    is_turned: bool = False
    """Whether it sums from the last sample to the first."""
    places: int | None = None
    """The tensor with the place of each sample in the order, by which the sums are taken back into that of the batch.
    """


def risk_sets(flow: Dataflow) -> Iterator[RiskSet]:
    """All of them that a step follows."""
    for row, call in calls_named(flow, ("sub", "div")):
        is_compared = len(call.live_inputs) == _BOTH
        if is_compared and call.kind == "operation" and flow.has_step_after(row):
            summed = _summed(flow, row)
            if summed is not None:
                yield summed


def indicators(flow: Dataflow, row: int) -> list[tuple[int, int]]:
    """Tensors of zeros and ones with which differences are weighed, or by which they are selected; and where."""
    waiting = [(flow.log.calls[row].outputs[0].tensor, row)]
    for _ in range(MAX_MAKERS):
        if not waiting:
            return []
        given, after = waiting.pop()
        for user in flow.users(given, after):
            call = flow.log.calls[user]
            name = plain_name(call.function)
            others = [use for use in call.inputs if use.tensor != given and not use.requires_grad]
            if name in ("mul", "getitem", "masked_select", "where", "dot") and others:
                return [(use.tensor, user) for use in others if _is_indicator(flow, use.tensor, user)]
            if name in ("neg", "log", "squeeze", "view", "reshape", "flip") and call.outputs:
                waiting.append((call.outputs[0].tensor, user))
    return []


def index_of(call: Call) -> int | None:
    """The only tensor by which a call takes rows."""
    index = [use for use in call.inputs[1:] if use.place in ("1", "1[0]", "2", "index", "indices")]
    return index[0].tensor if plain_name(call.function) in _TAKE and len(call.inputs) == _BOTH and index else None


_BOTH = 2
MAX_MAKERS = 8
_SCALE = frozenset({"add", "sub", "log", "clamp", "clamp_min", "squeeze", "view", "reshape", "flip", "unsqueeze"})
_SUMS = frozenset({"cumsum", "logcumsumexp"})
_PUT_BACK = frozenset({"scatter", "setitem", "index_copy", "index_put", "scatter_add", "index_add"})
_TAKE = frozenset({"getitem", "index_select", "gather", "take_along_dim", "take"})


def _summed(flow: Dataflow, row: int) -> RiskSet | None:
    """The cumulative sum, if one of two operands is the logarithm of one over the samples."""
    call = flow.log.calls[row]
    for use in call.inputs:
        names = set[str]()
        places: int | None = None
        for made, maker in flow.makers_above(use.tensor, row, MAX_MAKERS, _summed_in):
            name = plain_name(maker.function)
            is_log = "log" in names or plain_name(call.function) == "div"
            if name in _SUMS:
                is_whole = _is_over_samples(flow, maker) and (is_log or name == "logcumsumexp")
                scores = maker.inputs[0].tensor
                return RiskSet(row, made, scores, name == "logcumsumexp", places=places) if is_whole else None
            if name in _TRIANGLES and (is_log or name == "logsumexp") and places is None:
                return _sum_by_triangle(flow, row, made, maker)
            at = _places_in(maker)
            if (name not in _SCALE and at is None) or (at is not None and places is not None):
                break
            places = places if at is None else at
            names.add(name)
    return None


def _summed_in(call: Call) -> tuple[TensorUse, ...]:
    """The input of a call with the sums: the first one, and the last one where they are written into another tensor."""
    return call.inputs[-1:] if plain_name(call.function) in _PUT_BACK else call.inputs[:1]


def _places_in(call: Call) -> int | None:
    """The tensor with the places at which a call takes the sums, or at which it writes them."""
    if plain_name(call.function) in _PUT_BACK:
        return call.inputs[1].tensor if len(call.inputs) == _BOTH + 1 else None
    return index_of(call)


_TRIANGLES = frozenset({"mv", "matmul", "mm", "einsum", "logsumexp"})
_SHAPES = frozenset({"to", "float", "bool", "double", "type_as", "contiguous", "logical_not", "invert"})
_HIDES = frozenset({"masked_fill", "where"})
_MAX_SHAPES = 4


def _sum_by_triangle(flow: Dataflow, compared: int, row: int, call: Call) -> RiskSet | None:
    """A product of a triangle of ones with exponentials, or a ``logsumexp()`` of a table of which one is hidden."""
    is_exponential = plain_name(call.function) == "logsumexp"
    made = row
    if is_exponential:
        found = flow.newest_producer(call.inputs[0].tensor, row)
        hidden = None if found is None else flow.log.calls[found]
        if found is None or hidden is None or plain_name(hidden.function) not in _HIDES:
            return None
        made, call = found, hidden
    dead = [use for use in call.inputs if not use.requires_grad]
    if len(call.live_inputs) != 1 or not dead:
        return None
    scores, order = call.live_inputs[0].tensor, _triangle(flow, dead[0].tensor, made)
    count = shape_of(flow, dead[0].tensor)[-1:]
    if order is None or prod(shape_of(flow, scores)) not in (*count, prod(count) ** 2):
        return None
    return RiskSet(compared, row, scores, is_exponential, is_turned=order)


def _triangle(flow: Dataflow, tensor: int, row: int) -> bool | None:
    """Whether a square table of ones has its zeros below the diagonal; None for others, as those computed of times.

    A mask that hides is about the other half.
    """
    shape, is_hidden = shape_of(flow, tensor), plain_name(flow.log.calls[row].function) in _HIDES
    if len(shape) != _BOTH or shape[0] != shape[1]:
        return None
    for made, call in flow.makers(tensor, row, _MAX_SHAPES):
        name = plain_name(call.function)
        is_hidden ^= name in ("logical_not", "invert")
        if name in ("tril", "triu"):
            source = None if not call.inputs else flow.newest_producer(call.inputs[0].tensor, made)
            is_of_ones = source is not None and plain_name(flow.log.calls[source].function) in _ONES
            return (name == "triu") is not is_hidden if is_of_ones else None
        if name not in _SHAPES:
            return None
    return None


_ONES = frozenset({"ones", "ones_like", "full", "new_ones", "full_like"})


def _is_over_samples(flow: Dataflow, call: Call) -> bool:
    shape = shape_of(flow, call.inputs[0].tensor)
    return shape[1:] in ((), (1,)) and axis_of(call, len(shape)) == 0


def _is_indicator(flow: Dataflow, tensor: int, row: int) -> bool:
    values = flow.values(tensor, row)
    return values is not None and (values.minimum, values.maximum) == (0, 1)
