"""Weights of classes that were computed from their counts, and what uses them as weights of samples."""

from __future__ import annotations

from collections.abc import Iterator

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.formulas.products import product_of
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY, argument, tensor_before
from gradviz.analysis.rules.bases.losses.signed_terms import is_number_first, number_of
from gradviz.graph.call_log import Call, TensorUse

_RISE = SHAPE_ONLY | {
    "add", "clamp", "clamp_min", "sqrt", "log", "log1p", "exp", "expm1", "normalize", "softmax", "square", "long",
}  # fmt: skip
_FALL = frozenset({"neg", "reciprocal", "rsqrt"})
_COUNTS = frozenset({"bincount", "histc"})
_TAKE = frozenset({"getitem", "take", "index_select", "gather", "embedding", "take_along_dim"})
_LOSSES = frozenset({"cross_entropy", "nll_loss", "gather", "getitem", "take_along_dim", "multi_margin_loss"})
_FORMS = SHAPE_ONLY - {"getitem"} | {"neg", "mul"}
_MAX_MAKERS = 12
_BOTH = 2


def weights_of_samples(flow: Dataflow, row: int, call: Call) -> TensorUse | None:
    """The weights of classes that a loss gets; or of which a call looked up one for each label, with which a call
    multiplies the losses for the same labels, or in proportion to which it draws samples."""
    if plain_name(call.function) == DRAW:
        return _table_of_draw(flow, row, call)
    if not call.live_inputs:
        return None
    if plain_name(call.function) in ("cross_entropy", "nll_loss"):
        return argument(call, 2, "weight")
    pair = product_of(call)
    if pair is None or len(call.live_inputs) != 1:
        return None
    (weights,) = [use for use in pair if not use.requires_grad]
    found = _looked_up(flow, weights.tensor, row)
    if found is None:
        return None
    table, labels, taken = found
    return table if labels in _labels_of(flow, call.live_inputs[0].tensor, row) and taken < row else None


def _table_of_draw(flow: Dataflow, row: int, call: Call) -> TensorUse | None:
    """The table from which the weights were looked up with which samples are drawn: at once, or for each label."""
    weights = tensor_before(flow, call.inputs[0].tensor, row, _COPIES)
    made = flow.newest_producer(weights, row)
    joined = None if made is None else flow.log.calls[made]
    if made is not None and joined is not None and plain_name(joined.function) in _JOINS and len(joined.inputs) > 1:
        taken = {_taken_from(flow, use.tensor, made) for use in joined.inputs}
        return taken.pop() if len(taken) == 1 else None
    found = _looked_up(flow, weights, row)
    return None if found is None else found[0]


def _taken_from(flow: Dataflow, tensor: int, row: int) -> TensorUse | None:
    """The table from which one number was taken."""
    made = flow.newest_producer(tensor, row)
    call = None if made is None else flow.log.calls[made]
    return call.inputs[0] if call is not None and plain_name(call.function) in ("getitem", "select") else None


DRAW = "multinomial"
_COPIES = SHAPE_ONLY - {"getitem", "select", "narrow"} | {"as_tensor", "tensor"}
_JOINS = frozenset({"stack", "tensor", "as_tensor", "cat"})

_Labels = tuple[int, ...]
"""A tensor of labels; or the tensor from which they were taken, and the numbers of the samples."""


def _key(flow: Dataflow, tensor: int, row: int) -> _Labels:
    labels = tensor_before(flow, tensor, row, SHAPE_ONLY)
    made = flow.newest_producer(labels, row)
    call = None if made is None else flow.log.calls[made]
    if call is None or plain_name(call.function) not in ("getitem", "index_select") or len(call.inputs) != _BOTH:
        return (labels,)
    return tuple(use.tensor for use in call.inputs)


def _looked_up(flow: Dataflow, tensor: int, row: int) -> tuple[TensorUse, _Labels, int] | None:
    """The table of which one number was taken for each label, the labels, and the call that took them."""
    before = tensor_before(flow, tensor, row, SHAPE_ONLY - {"getitem"})
    made = flow.newest_producer(before, row)
    call = None if made is None else flow.log.calls[made]
    if made is None or call is None or plain_name(call.function) not in _TAKE or len(call.inputs) != _BOTH:
        return None
    table, index = call.inputs
    if "int" in flow.log.tensors[table.tensor].facts.dtype:  # embedding() has the labels first
        table, index = index, table
    return (table, _key(flow, index.tensor, made), made) if not table.requires_grad else None


def _labels_of(flow: Dataflow, tensor: int, row: int) -> Iterator[_Labels]:
    """The labels for which losses of samples were computed."""
    for made, call in flow.makers(tensor, row, _MAX_MAKERS):
        if plain_name(call.function) in _LOSSES and len(call.inputs) > 1:
            yield from (_key(flow, use.tensor, made) for use in call.inputs[1:])
            return
        if plain_name(call.function) not in _FORMS:
            return


def made_of_counts(flow: Dataflow, weights: TensorUse, row: int) -> tuple[int, int, int] | None:
    """The last call that computed weights of classes from their counts, 1 if they rise with them and -1 if they fall,
    and the call that counted; None if they come from elsewhere, or that is not known."""
    tensor, before, last, direction = weights.tensor, row, None, 1
    count = flow.log.tensors[tensor].facts.elements
    for _ in range(_MAX_MAKERS):
        made = flow.newest_producer(tensor, before)
        if made is None:
            return None
        call = flow.log.calls[made]
        last = made if last is None else last
        if plain_name(call.function) in _COUNTS or _is_sum_of_one_hot(flow, made, call):
            return last, direction, made
        next_one = next((use for use in call.inputs if flow.log.tensors[use.tensor].facts.elements == count), None)
        turn = 0 if next_one is None else _direction(flow, made, call, next_one)
        if next_one is None or not turn:
            return None
        tensor, before, direction = next_one.tensor, made, direction * turn
    return None


def _is_sum_of_one_hot(flow: Dataflow, row: int, call: Call) -> bool:
    made = flow.newest_producer(call.inputs[0].tensor, row) if call.inputs else None
    is_one_hot = made is not None and plain_name(flow.log.calls[made].function) == "one_hot"
    return plain_name(call.function) == "sum" and is_one_hot


def _direction(flow: Dataflow, row: int, call: Call, use: TensorUse) -> int:
    """1 if the result of a call grows with one of its inputs, -1 if it falls, 0 if that is not known."""
    name = plain_name(call.function)
    is_first = use is call.inputs[0] and not is_number_first(call)
    others = [each for each in call.inputs if each is not use]
    if len(others) > 1 or any(shape_of(flow, each.tensor) not in ((), (1,)) for each in others):
        return 0
    if name == "sub":
        return 1 if is_first else -1
    if name == "pow":
        number = number_of(call, "1", "0", "exponent", missing=0.0)
        return 0 if number <= 0 and not is_first else _sign(number if is_first else number - 1)
    if name in ("mul", "div"):
        sign = _sign(number_of(call, "1", "0", "other", missing=0.0)) if not others else _sign_of(flow, others[0], row)
        return sign if name == "mul" or is_first else -sign
    if name in _FALL:
        return -1
    return 1 if name in _RISE else 0


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


def _sign_of(flow: Dataflow, use: TensorUse, row: int) -> int:
    values = flow.values_of(use, row)
    return 0 if values is None or values.minimum is None else _sign(values.minimum)
