"""Vectors that were divided by their own length, and the products of two of them."""

from __future__ import annotations

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.lengths import division_by_length
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.losses.signed_terms import number_of
from gradviz.graph.call_log import Call

_BOTH = 2


def are_normalized(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call takes two tensors of unit vectors."""
    return len(call.inputs) == _BOTH and all(is_normalized(flow, use.tensor, row) for use in call.inputs)


def is_normalized(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a tensor was divided by its norm, and only brought into another shape since."""
    made = value_maker(flow, tensor, row, through=frozenset({"detach"}))
    if made is None:
        return False
    if plain_name(made[1].function) == "normalize":
        return True
    division = division_by_length(flow, *made)
    return division is not None and division.is_own


def is_cosine(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a tensor has the cosines of the angles between vectors."""
    made = value_maker(flow, tensor, row)
    if made is None:
        return False
    name = plain_name(made[1].function)
    return name == "cosine_similarity" or (name in _PRODUCTS and are_normalized(flow, *made))


_PRODUCTS = frozenset({"matmul", "mm", "einsum", "bmm", "linear"})


def leaves_out(call: Call) -> bool:
    """Whether a call leaves out scores, as those of each vector with itself: ``masked_fill(mask, -inf)``."""
    name, number = plain_name(call.function), number_of(call, "2", "value", missing=0.0)
    return name in ("masked_fill", "fill_diagonal") and min(number, number_of(call, "1", missing=0.0)) < _OUT


_OUT = -1e3
