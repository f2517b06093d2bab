"""Masks of the right classes, made from targets, and what they exchange among scores."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.graph.call_log import Call, TensorUse

_BOTH = 2
_THREE = 3
_MAX_CALLS = 8


class Exchange(Struct, frozen=True):
    """What stands for the score of the right class, and the scores of the others."""

    right: TensorUse
    others: TensorUse
    mask: TensorUse


def exchange(flow: Dataflow, row: int, call: Call) -> Exchange | None:
    """The exchange of a ``where()``, or of a sum of products with a mask and with what it leaves."""
    name = plain_name(call.function)
    if name == "where" and len(call.inputs) == _THREE and len(call.live_inputs) == _BOTH:
        return Exchange(call.inputs[1], call.inputs[2], call.inputs[0])
    if name != "add" or len(call.live_inputs) != _BOTH:
        return None
    # mask * changed + (1 - mask) * score
    parts = [part for use in call.inputs if (part := _weighed(flow, use, row)) is not None]
    for first, second in (parts, parts[::-1]) if len(parts) == _BOTH else ():
        if any(plain_name(made.function) in ("rsub", "sub") for _, made in flow.makers(second.mask.tensor, row, 1)):
            return Exchange(first.scores, second.scores, first.mask)
    return None


class _Weighed(Struct, frozen=True):
    """A product of scores and a mask."""

    scores: TensorUse
    mask: TensorUse


def _weighed(flow: Dataflow, use: TensorUse, row: int) -> _Weighed | None:
    _, call = next(flow.makers(use.tensor, row, 1), (row, None))
    if call is None or plain_name(call.function) != "mul" or len(call.inputs) != _BOTH or len(call.live_inputs) != 1:
        return None
    return _Weighed(call.live_inputs[0], next(each for each in call.inputs if not each.requires_grad))


def is_one_hot(flow: Dataflow, use: TensorUse, row: int, target: TensorUse) -> bool:
    """Whether a mask was made from the classes of the target, perhaps multiplied by a margin."""
    same = {target.tensor, *flow.sharing_memory(target.tensor)}
    made = flow.makers_above(use.tensor, row, _MAX_CALLS, lambda call: call.inputs if _passes(call) else ())
    return any(
        plain_name(call.function).strip("_") in _ONE_HOT and not same.isdisjoint(_behind(flow, call, number))
        for number, call in made
    )


def _behind(flow: Dataflow, call: Call, row: int) -> Iterator[int]:
    """The inputs of a call, before they were brought into another shape."""
    for use in call.inputs:
        yield use.tensor
        for _, made in flow.makers(use.tensor, row, 1):
            if plain_name(made.function) in SHAPE_ONLY and made.inputs:
                yield made.inputs[0].tensor


def _passes(call: Call) -> bool:
    return plain_name(call.function) in _KEEP


_ONE_HOT = frozenset({"one_hot", "scatter", "eq", "index_put", "setitem"})
_KEEP = SHAPE_ONLY | {"mul", "bool", "type", "long", "half", "zeros_like", "scatter", "scatter_", "setitem"}
