"""What a mask of scores is: made by a comparison, a triangle, or numbers far below zero."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

FAR_BELOW = -1e3
_SHAPES = frozenset({
    "view", "reshape", "unsqueeze", "squeeze", "expand", "expand_as", "repeat", "to", "float", "bool", "int", "long",
    "getitem", "contiguous", "clone", "type", "type_as", "half", "bfloat16", "detach", "logical_not", "invert",
    "bitwise_not", "cuda", "cpu", "sub", "transpose",
})  # fmt: skip
_COMPARED = frozenset({
    "lt", "le", "gt", "ge", "eq", "ne", "tril", "triu", "logical_and", "logical_or", "bitwise_and", "bitwise_or", "and",
    "or", "isin", "eye", "ones", "zeros", "full", "one_hot",
})  # fmt: skip
_RANDOM = frozenset({"rand", "rand_like", "bernoulli", "dropout", "multinomial", "randn", "gumbel_softmax", "topk"})
_MAX_SHAPES = 10


def is_of_yes_and_no(flow: Dataflow, row: int, tensor: int) -> bool:
    """Whether a tensor has zeros and ones that a comparison or a table of booleans or integers gave it, not drawn."""
    values = flow.values(tensor, row)
    if values is None or values.minimum != 0 or values.maximum != 1 or not 0 < values.zeros < values.count:
        return False
    is_counted = False
    for _, call in ((-1, None), *flow.makers(tensor, row, _MAX_SHAPES)):
        if call is not None:
            name = plain_name(call.function)
            if name in _RANDOM or any(_is_drawn(flow, use.tensor, row) for use in call.inputs):
                return False
            if name in _COMPARED or (name in _TRIANGLES and _is_of_ones(flow, call)):
                return True
            if name not in _SHAPES:
                break
            is_counted |= any(_is_counted(flow, use.tensor) for use in call.inputs)
    return is_counted or _is_counted(flow, tensor)


def _is_of_ones(flow: Dataflow, call: Call) -> bool:
    """Whether what a call takes is 1 everywhere."""
    made = flow.log.tensors[call.inputs[0].tensor].first_seen if call.inputs else None
    values = None if made is None else flow.values(call.inputs[0].tensor, made + 1)
    return values is not None and values.minimum == values.maximum == 1


_TRIANGLES = frozenset({"tril", "triu"})


def _is_counted(flow: Dataflow, tensor: int) -> bool:
    dtype = flow.log.tensors[tensor].facts.dtype
    return dtype == "bool" or dtype.startswith(("int", "uint"))


def _is_drawn(flow: Dataflow, tensor: int, row: int) -> bool:
    made = flow.producers(tensor, row)
    return bool(made) and plain_name(flow.log.calls[made[-1]].function) in _RANDOM


def varies_along(flow: Dataflow, mask: int, scores: int, axis: int) -> bool:
    """Whether a mask may tell the positions of one axis of the scores apart: it is not the same for all of them."""
    shape, whole = shape_of(flow, mask), shape_of(flow, scores)
    from_end = len(whole) - axis
    return len(shape) >= from_end and shape[-from_end] > 1


class Triangle(Struct, frozen=True):
    """What a mask hides: positions above a diagonal, counted from the main one, or below it."""

    row: int
    hides_upper: bool
    diagonal: int
    """The first diagonal that is hidden, of an upper triangle."""

    @property
    def shows_the_future(self) -> bool:
        return not self.hides_upper or self.diagonal > 1


def triangle_of(flow: Dataflow, row: int, mask: int, *, hides_true: bool) -> Triangle | None:
    """The triangle that a mask was made from; None if it was not made from one alone."""
    for maker, call in _mask_makers(flow, mask, row):
        name = plain_name(call.function)
        if name in ("tril", "triu"):
            return _triangle(flow, maker, call, hides_true)
        if _is_negated(call, name):
            hides_true = not hides_true
        elif name in ("masked_fill", "log"):
            hides_true = name == "masked_fill"  # the logarithm of zeros is -inf
        elif name in ("eq", "ne", "gt", "mul"):
            if len(call.inputs) > 1 or (name != "mul" and call.scalars.get("1") not in (0, 1, 0.5, True, False)):
                return None
        elif name not in _SHAPES or any(each.endswith(".start") and call.scalars[each] for each in call.scalars):
            return None
    return None


def _is_negated(call: Call, name: str) -> bool:
    if name == "eq":
        return call.scalars.get("1") in (0, False)
    # 1 - m, and m - 1 times a large number, are zero where m is 1.
    return name in ("logical_not", "invert", "bitwise_not") or (name == "sub" and call.scalars.get("1") == 1)


def _mask_makers(flow: Dataflow, mask: int, row: int) -> Iterator[tuple[int, Call]]:
    """The calls that made a mask, upwards; of ``zeros.masked_fill(mask, -inf)`` those that made the mask."""
    for _ in range(_MAX_SHAPES):
        made = flow.producers(mask, row)
        if not made:
            return
        row = made[-1]
        call = flow.log.calls[row]
        yield row, call
        if not call.inputs:
            return
        is_filled = plain_name(call.function) == "masked_fill" and len(call.inputs) > 1
        mask = call.inputs[1 if is_filled else 0].tensor


def _triangle(flow: Dataflow, row: int, call: Call, hides_true: bool) -> Triangle | None:
    diagonal = call.scalars.get("diagonal", call.scalars.get("1", 0))
    values = flow.values_of(call.inputs[0], row)
    is_uniform = values is None or values.infs == values.count or (values.minimum == values.maximum and not values.infs)
    if type(diagonal) is not int or not is_uniform:
        return None
    is_upper = (plain_name(call.function) == "triu") == hides_true
    return Triangle(row, is_upper, diagonal if hides_true else diagonal + 1)


def hidden_of(flow: Dataflow, row: int, mask: int, *, hides_true: bool) -> tuple[int, int] | None:
    """How many elements a mask hides, and how many it has; of a mask that is added, those far below zero."""
    values = flow.values(mask, row)
    if values is None:
        return None
    if flow.log.tensors[mask].facts.dtype in ("bool", "uint8"):
        return (values.count - values.zeros if hides_true else values.zeros), values.count
    if values.infs:
        return values.infs, values.count
    is_low = values.minimum is not None and values.minimum <= FAR_BELOW
    return (values.count - values.zeros, values.count) if is_low else None
