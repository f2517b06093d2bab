"""Learned multipliers: what a loss multiplies with a trained number, and with which sign."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.case import Case
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.factors import trained_leaf_behind
from gradviz.analysis.rules.bases.losses.loss_arguments import value_maker
from gradviz.analysis.rules.bases.losses.signed_terms import PRODUCTS, Term, is_number_first, number_of
from gradviz.graph.call_log import Call, TensorUse


class MultipliedTerm(Struct, frozen=True):
    """A multiplier times something, of which one has a gradient."""

    leaf: int
    """The trained tensor that the multiplier is computed from."""
    tensor: int
    """What is multiplied."""
    maker: tuple[str, int | None]
    """The function and the line that made it."""
    sign: int
    """1 if the loss adds it."""


_MULTIPLIERS = frozenset({
    "exp", "softplus", "sigmoid", "detach", "clamp", "relu", "abs", "view", "reshape", "squeeze", "to", "float", "data",
    "clone", "neg", "expand", "getitem", "unsqueeze",
})  # fmt: skip
_KEEPS = frozenset({
    "detach", "view", "reshape", "squeeze", "unsqueeze", "to", "float", "clone", "mean", "data", "expand", "add", "sub",
    "neg", "mul",
})  # fmt: skip
_MOST_CALLS = 10


def multiplied_terms(case: Case, term: Term, *, is_trained: bool) -> Iterator[MultipliedTerm]:
    """The products of a term with a multiplier that has a gradient, or of which only the other factor has one."""
    flow = case.dataflow
    factors, sign = _factors(flow.log.calls[term.row])
    live = [use for use in factors if use.requires_grad]
    dead = [use for use in factors if not use.requires_grad]
    if len(live) != 1 or len(dead) != 1:
        return
    multiplier, other = (live[0], dead[0]) if is_trained else (dead[0], live[0])
    leaf, turned = trained_leaf_behind(case.histories, multiplier.tensor, term.row, _MULTIPLIERS, beside_data=False)
    if leaf is None:
        return
    is_one = flow.log.tensors[leaf].facts.shape in ((), (1,))
    if not is_one and not (_is_of_multipliers(flow, leaf, multiplier, term.row) and _has_limit(flow, other, term.row)):
        return
    for tensor, turn in _behind(flow, other.tensor, term.row):
        made = flow.newest_producer(tensor, term.row)
        if made is not None:
            maker = flow.log.calls[made]
            yield MultipliedTerm(leaf, tensor, (maker.function, maker.call_site), turned * sign * turn * term.sign)


def _factors(call: Call) -> tuple[tuple[TensorUse, ...], int]:
    """The two tensors that a call multiplies, and the sign with which it adds their product."""
    name = plain_name(call.function)
    if name in PRODUCTS and len(call.inputs) == _BOTH:
        return call.inputs, 1
    if name == "addcmul":
        return call.inputs[1:], -1 if number_of(call, "value", missing=1.0) < 0 else 1
    return (), 1


def _is_of_multipliers(flow: Dataflow, leaf: int, multiplier: TensorUse, row: int) -> bool:
    """Whether a leaf has a multiplier for each of several constraints: a row of numbers, none of them below zero."""
    values = flow.values_of(multiplier, row)
    is_positive = values is not None and values.minimum is not None and values.minimum >= 0
    return len(flow.log.tensors[leaf].facts.shape) == 1 and is_positive


def _has_limit(flow: Dataflow, other: TensorUse, row: int) -> bool:
    """Whether what several multipliers weigh is the distance of something from limits."""
    made = value_maker(flow, other.tensor, row, through=frozenset({"detach", "data", "clone"}))
    return made is not None and plain_name(made[1].function) in ("sub", "add")


def multiplier_of_constraint(case: Case, term: Term) -> int | None:
    """The trained number that a loss multiplies with ``cost - budget``, both with a gradient, and adds."""
    flow = case.dataflow
    factors, sign = _factors(flow.log.calls[term.row])
    if not all(use.requires_grad for use in factors) or not factors or not term.is_sure or sign * term.sign < 0:
        return None
    shapes = {shape_of(flow, use.tensor) for use in factors}
    is_one = shapes <= {(), (1,)}
    if not is_one and (len(shapes) > 1 or any(len(shape) != 1 for shape in shapes)):
        return None
    for multiplier, other in (factors, factors[::-1]):
        leaf, turned = trained_leaf_behind(case.histories, multiplier.tensor, term.row, _MULTIPLIERS, beside_data=False)
        made = flow.newest_producer(other.tensor, term.row)
        constraint = None if made is None else flow.log.calls[made]
        if leaf is None or turned < 0:
            continue
        if not is_one and not _is_of_multipliers(flow, leaf, multiplier, term.row):
            continue
        if made is None or constraint is None:
            continue
        is_difference = plain_name(constraint.function) in ("sub", "add") and len(constraint.live_inputs) == 1
        if is_difference and _is_of_limit(flow, other.tensor, made, constraint):
            return leaf
    return None


_BOTH = 2


def _is_of_limit(flow: Dataflow, tensor: int, row: int, call: Call) -> bool:
    """Whether a number is taken away from what a constraint limits, so that it is 0 at the limit.

    ``1 - agreement`` is an error, unless it becomes negative.
    """
    name = plain_name(call.function)
    if name == "sub" and not is_number_first(call):
        return call.inputs[0].requires_grad
    values = flow.values(tensor, row + 1)
    is_negative = values is not None and values.minimum is not None and values.minimum < 0
    return is_negative if name == "sub" else number_of(call, "1", "0", "other", missing=0.0) < 0


def _behind(flow: Dataflow, tensor: int, row: int) -> Iterator[tuple[int, int]]:
    """A tensor, and what it was made from by steps that keep or turn the sign: with the sign of each."""
    sign = 1
    for _ in range(_MOST_CALLS):
        yield tensor, sign
        made = flow.newest_producer(tensor, row)
        call = None if made is None else flow.log.calls[made]
        if made is None or call is None or plain_name(call.function) not in _KEEPS or not call.inputs:
            return
        name = plain_name(call.function)
        if name == "mul" and len(call.inputs) > 1:
            return
        use = next(
            (each for each in call.inputs if flow.newest_producer(each.tensor, made) is not None), call.inputs[0]
        )
        is_taken_away = name == "sub" and (is_number_first(call) or use is not call.inputs[0])
        factor = number_of(call, "1", "0", "other", missing=1.0) if name == "mul" else 1.0
        sign *= -1 if name == "neg" or is_taken_away or factor < 0 else 1
        tensor, row = use.tensor, made
