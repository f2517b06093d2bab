"""Logarithms of normal densities, as losses spell them: a square of what data differs from something trained, summed
with the logarithm of a scale."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.products import is_square, product_of
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, tensor_before
from gradviz.graph.call_log import Call, TensorUse

_OF_DENSITIES = frozenset({"add", "sub", "mul", "div", "neg", "sum", *SHAPE_ONLY})
_MAX_MAKERS = 12
_MAX_CALLS = 40
_BOTH = 2


def is_log_density(flow: Dataflow, use: TensorUse, row: int) -> bool:
    """Whether a summand contains the square of a difference of data and something trained."""
    return bool(squares_of_differences(flow, use, row))


def squares_of_differences(flow: Dataflow, use: TensorUse, row: int) -> list[int]:
    """The calls that square a difference of data and something trained, of which a tensor is a sum."""
    waiting, seen, found = [(use, row)], set[int](), list[int]()
    while waiting and len(seen) < _MAX_CALLS:
        part, before = waiting.pop()
        made = flow.newest_producer(part.tensor, before)
        if made is None or made in seen:
            continue
        seen.add(made)
        call = flow.log.calls[made]
        if _is_square(flow, made, call):
            found += [made] if _is_of_difference(flow, call.inputs[-1].tensor, made) else []
        elif plain_name(call.function) in _OF_DENSITIES:
            waiting += [(each, made) for each in call.live_inputs]
    return found


def _is_square(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call squares something, also as ``-0.5 * z * z``."""
    pair = product_of(call)
    factors = {tensor_before(flow, each.tensor, row, _NUMBERS) for each in pair or ()}
    return is_square(call) or (plain_name(call.function) == "mul" and pair is not None and len(factors) == 1)


_NUMBERS = frozenset({"mul", "div", "neg"})


def _is_of_difference(flow: Dataflow, tensor: int, before: int) -> bool:
    """Whether a tensor is data minus something trained, perhaps divided by a scale."""
    for _, call in flow.makers(tensor, before, _MAX_MAKERS):
        name = plain_name(call.function)
        if name == "sub":
            return len(call.inputs) == _BOTH and any(not use.requires_grad for use in call.inputs)
        if name not in ("div", "mul") and name not in SHAPE_ONLY:
            return False
    return False
