"""Hinges on the standard deviations of a batch, which keep the results of different samples apart, or do not."""

from __future__ import annotations

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.products import is_squared
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.losses.signed_terms import Term, is_number_first

_MAX_ROOT = 4
_MAX_MAKERS = 12
_COVARIANCES = frozenset({"matmul", "mm", "bmm", "einsum", "cov", "corrcoef"})


def sign_of_spread(flow: Dataflow, term: Term) -> int:
    """1 if a loss punishes standard deviations above a number, -1 if below it: ``relu(1 - z.std(0))``; else 0."""
    call = flow.log.calls[term.row]
    name = plain_name(call.function)
    is_hinge = name == "relu" or (name.startswith("clamp") and 0 in call.scalars.values())
    if not is_hinge or term.sign < 0 or len(call.inputs) != 1:
        return 0
    made = value_maker(flow, call.inputs[0].tensor, term.row)
    if made is None or plain_name(made[1].function) != "sub" or len(made[1].inputs) != 1:
        return 0
    if not _is_of_batch(flow, made[1].inputs[0].tensor, made[0]):
        return 0
    return -1 if is_number_first(made[1]) else 1


def is_of_covariance(flow: Dataflow, row: int) -> bool:
    """Whether a call squares what a product of two results has, and nothing that data was subtracted from."""
    call = flow.log.calls[row]
    if not is_squared(call):
        return False
    for _, made in flow.makers(call.inputs[0].tensor, row, _MAX_MAKERS):
        if plain_name(made.function) in _COVARIANCES:
            return all(use.has_grad_fn for use in made.inputs)
        if len(made.inputs) > 1 and not all(use.requires_grad for use in made.inputs):
            return False
    return False


def _is_of_batch(flow: Dataflow, tensor: int, before: int) -> bool:
    """Whether a tensor has standard deviations along the first axis of what needs a gradient."""
    has_root = False
    for _, call in flow.makers(tensor, before, _MAX_ROOT):
        name = plain_name(call.function)
        if name == "std" or (name == "var" and has_root):
            given = call.inputs[0]
            shape = shape_of(flow, given.tensor)
            return given.requires_grad and len(shape) > 1 and shape_of(flow, call.outputs[0].tensor) == shape[1:]
        if name not in ("sqrt", "add", "clamp") or len(call.inputs) != 1:
            return False
        has_root |= name == "sqrt"
    return False
