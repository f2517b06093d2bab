"""What a program does to scores between the product that made them and the softmax: the masks above all."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Literal

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, TensorUse

PRODUCTS = frozenset({"matmul", "bmm", "mm", "einsum", "baddbmm"})
ADDS_TO_PRODUCT = frozenset({"baddbmm"})
_KEEPS_SCORES = frozenset({
    "div", "mul", "add", "sub", "clamp", "clip", "to", "float", "half", "bfloat16", "type_as", "contiguous", "view",
    "reshape", "dropout", "tanh", "unsqueeze", "squeeze", "clone", "neg", "leaky_relu",
})  # fmt: skip
_MAX_EDITS = 14


class Edit(Struct, frozen=True):
    """A call that changes some of the scores by a tensor that no gradient reaches."""

    row: int
    kind: Literal["fill", "factor", "term", "triangle"]
    """``fill``: ``masked_fill()``, ``where()``, ``scores[mask] = ...``; ``triangle``: ``scores.tril()``."""
    scores: int
    """The tensor that it changes."""
    mask: int | None = None
    hides_true: bool = True
    """Whether it fills where the mask is true."""
    value: float | None = None
    """What it fills in, if that is known."""


class Scores(Struct, frozen=True):
    """The scores of one softmax."""

    product: int | None
    """The matrix product that made them, if one did."""
    edits: tuple[Edit, ...]
    """From the last one to the first."""


def scores_of(flow: Dataflow, row: int) -> Scores:
    """What was done to the argument of the softmax `row` since a product made it."""
    edits: list[Edit] = []
    tensor, before = flow.log.calls[row].inputs[0].tensor, row
    for _ in range(_MAX_EDITS):
        made = flow.producers(tensor, before)
        if not made:
            break
        before = made[-1]
        call = flow.log.calls[before]
        name = plain_name(call.function)
        if name in PRODUCTS:
            return Scores(before, (*edits, *_added_to_product(before, call, tensor)))
        above = _input_of_same_size(flow, call, tensor)
        edit = None if above is None else _edit(flow, before, call, above)
        if edit is not None:
            edits.append(edit)
        elif name not in _KEEPS_SCORES:
            break
        if above is None:
            break
        tensor = above.tensor
    return Scores(None, tuple(edits))


def _added_to_product(row: int, call: Call, scores: int) -> Iterator[Edit]:
    """What ``baddbmm(mask, q, k)`` adds to the product, if no gradient reaches it."""
    if plain_name(call.function) in ADDS_TO_PRODUCT and call.inputs and not call.inputs[0].requires_grad:
        yield Edit(row, "term", scores, call.inputs[0].tensor)


def _input_of_same_size(flow: Dataflow, call: Call, tensor: int) -> TensorUse | None:
    """The scores that a call took; a where() has its mask first."""
    live = call.live_inputs
    same = [use for use in live if prod(shape_of(flow, use.tensor)) == prod(shape_of(flow, tensor))]
    return next(iter(same or live), None)


def _edit(flow: Dataflow, row: int, call: Call, scores: TensorUse) -> Edit | None:
    name, rest = plain_name(call.function), [use for use in call.inputs if not use.requires_grad]
    if name in ("tril", "triu"):
        return Edit(row, "triangle", scores.tensor)
    if name in ("masked_fill", "where", "setitem"):
        mask = next((use for use in rest if _is_bool(flow, use.tensor)), None)
        if mask is None:
            return None
        others = [use for use in rest if use.tensor != mask.tensor]
        hides_true = name != "where" or scores.place not in ("1", "input")
        return Edit(row, "fill", scores.tensor, mask.tensor, hides_true, _filled_in(flow, row, call, others))
    if name in ("mul", "add") and len(call.inputs) > 1 and len(rest) == 1:
        return Edit(row, "factor" if name == "mul" else "term", scores.tensor, rest[0].tensor)
    return None


def _is_bool(flow: Dataflow, tensor: int) -> bool:
    return flow.log.tensors[tensor].facts.dtype in ("bool", "uint8")


def _filled_in(flow: Dataflow, row: int, call: Call, others: list[TensorUse]) -> float | None:
    """The number that is filled in: an argument, or the only value of a tensor."""
    for place in ("2", "value", "1", "other"):
        value = call.scalars.get(place)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    for use in others:
        values = flow.values_of(use, row)
        if values is not None and values.infs == values.count:
            return float("-inf")
        if values is not None and values.minimum is not None and values.minimum == values.maximum:
            return values.minimum
    return None
