"""What becomes of an order that argsort() returns: masks and weights of the values that were sorted."""

from __future__ import annotations

from math import prod

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import PARTS, SHAPE_ONLY, tensor_before
from gradviz.analysis.rules.bases.losses.signed_terms import PRODUCTS
from gradviz.graph.call_log import Call

_BOTH = 2
KEEPS_INDEXES = SHAPE_ONLY - PARTS - {"T", "t"} | {"detach", "type", "half", "long"}
_SIZES = KEEPS_INDEXES | {"abs", "square", "neg"}
_FILLS = frozenset({"masked_fill", "setitem", "index_put"})
"""They put a number in the place of some values, as before a search for the hardest negatives."""
_MASKS = frozenset({"mul", "where", "masked_fill", "getitem", "masked_select"})
_JOINS = frozenset({"and", "or", "bitwise_and", "bitwise_or", "logical_and", "logical_or"})
_MAX_JOINED = 4
_MAX_FILLED = 8


def masks_what_was_sorted(flow: Dataflow, row: int, compared: int) -> bool:
    """Whether the result of a comparison, perhaps joined with other masks, selects among the very values that were
    sorted."""
    given = flow.log.calls[row].inputs[0].tensor
    source = _before_fills(flow, given, row)
    shape = shape_of(flow, given)
    waiting = [(flow.log.calls[compared].outputs[0].tensor, compared)]
    for _ in range(_MAX_JOINED):
        joined = list[tuple[int, int]]()
        for mask, after in waiting:
            if shape_of(flow, mask) != shape:
                continue
            for user in flow.users(mask, after):
                call = flow.log.calls[user]
                name = plain_name(call.function).strip("_")
                others = (use.tensor for use in call.inputs if use.tensor != mask)
                if name in _MASKS and any(_before_fills(flow, each, user) == source for each in others):
                    return True
                if name in KEEPS_INDEXES | _JOINS and call.outputs:
                    joined.append((call.outputs[0].tensor, user))
        waiting = joined
    return False


def _before_fills(flow: Dataflow, tensor: int, row: int) -> int:
    """The tensor before some of its values were replaced, and its shape, its type or its signs changed."""
    for _ in range(_MAX_FILLED):
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        name = "" if call is None else plain_name(call.function)
        if made is None or call is None or not call.inputs or not (name in _FILLS or _is_kept(call, name)):
            break
        row, tensor = made, call.inputs[0].tensor
    return tensor


def _is_kept(call: Call, name: str) -> bool:
    return name in _SIZES and len(call.inputs) == 1


def weighs_what_was_sorted(flow: Dataflow, row: int, lookup: int, order: int) -> bool:
    """Whether what an order takes from a table multiplies the very values that were sorted, which stand in their old
    order."""
    source = tensor_before(flow, flow.log.calls[row].inputs[0].tensor, row, _SIZES)
    call = flow.log.calls[lookup]
    table = next((use.tensor for use in call.inputs if use.tensor != order), None)
    if table is None or tensor_before(flow, table, lookup, _SIZES) == source:
        return False
    taken, after = call.outputs[0].tensor, lookup
    for _ in range(_MAX_SCALED):
        users = flow.users(taken, after)
        for user in users:
            each = flow.log.calls[user]
            others = [use.tensor for use in each.inputs if use.tensor != taken]
            is_product = plain_name(each.function) in PRODUCTS
            if is_product and any(tensor_before(flow, other, user, _SIZES) == source for other in others):
                return True
        scaled = [user for user in users if _is_scaled(flow, flow.log.calls[user], taken)]
        if not scaled:
            return False
        taken, after = flow.log.calls[scaled[-1]].outputs[0].tensor, scaled[-1]
    return False


def _is_scaled(flow: Dataflow, call: Call, tensor: int) -> bool:
    """Whether a call keeps what it is given, or multiplies all of it with one number."""
    if not call.outputs or call.inputs[0].tensor != tensor:
        return False
    name, rest = plain_name(call.function), call.inputs[1:]
    return name in KEEPS_INDEXES or (
        name in ("mul", "div") and all(prod(shape_of(flow, use.tensor)) == 1 for use in rest)
    )


_MAX_SCALED = 4
