"""What a number is a sum of, with signs, whether it has a gradient or not: values of networks and log-probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.log_probabilities import kind_of
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, PRODUCTS, is_number_first, number_of
from gradviz.graph.call_log import Call, TensorUse


class Part(Struct, frozen=True):
    """A summand."""

    kind: Literal["value", "log-probability"]
    row: int
    """The last layer of a network; or a call that makes a log-probability."""
    sign: int
    path: tuple[int, ...]
    """The calls from the sum down to this one."""


class _Step(Struct, frozen=True):
    use: TensorUse
    before: int
    sign: int
    path: tuple[int, ...]


_BOTH = 2
_MAX_CALLS = 120
_PASSED = frozenset({
    "sum", "mean", "min", "minimum", "max", "maximum", "amin", "amax", "stack", "cat", "gather", "detach", "clamp",
    "where", "take_along_dim", "narrow", "select", "index_select", *SHAPE_ONLY,
})  # fmt: skip
_OF_A_NORMAL = 0.9189385
"""Half of log(2 pi), which the log-probability of a normal distribution subtracts."""
_ROUNDED = 1e-4


def signed_parts(flow: Dataflow, use: TensorUse, before: int) -> Iterator[Part]:
    """The values of networks and the log-probabilities of which a tensor is a sum."""
    waiting, seen = [_Step(use, before, 1, ())], set[tuple[int, int]]()
    while waiting and len(seen) < _MAX_CALLS:
        step = waiting.pop()
        row = flow.newest_producer(step.use.tensor, step.before)
        if row is None or (row, step.sign) in seen:
            continue
        seen.add((row, step.sign))
        call, path = flow.log.calls[row], (*step.path, row)
        sign = _of_log_probability(flow, row, call)
        if sign:
            yield Part("log-probability", row, sign * step.sign, path)
        elif any(flow.log.tensors[each.tensor].role == "parameter" and each.place != "0" for each in call.inputs):
            yield Part("value", row, step.sign, path)
        else:
            waiting += [_Step(each, row, step.sign * turn, path) for each, turn in _summands(flow, row, call)]


def _of_log_probability(flow: Dataflow, row: int, call: Call) -> int:
    """1 if a call returns a log-probability, -1 for a negative one, 0 for everything else."""
    name = plain_name(call.function)
    if name in ("add", "sub") and len(call.inputs) == 1 and not is_number_first(call):
        number = abs(number_of(call, *OPERAND, missing=0.0))
        if min(abs(number - _OF_A_NORMAL), abs(number - 2 * _OF_A_NORMAL)) < _ROUNDED:
            return 1 if name == "sub" else -1
        return 0
    if name == "log_softmax":
        return 1
    if name == "entr":  # -p * log p
        return -int(bool(call.inputs) and kind_of(flow, call.inputs[0].tensor, row) == "probability")
    if name == "xlogy" and len(call.inputs) == _BOTH:
        return int(all(kind_of(flow, use.tensor, row) == "probability" for use in call.inputs))
    if name == "sub" and len(call.inputs) == _BOTH:
        made = flow.newest_producer(call.inputs[1].tensor, row)
        return int(made is not None and plain_name(flow.log.calls[made].function) == "logsumexp")
    return int(name == "log" and bool(call.inputs) and kind_of(flow, call.inputs[0].tensor, row) == "probability")


def _summands(flow: Dataflow, row: int, call: Call) -> Iterator[tuple[TensorUse, int]]:
    """What a call adds up, each with 1 or -1."""
    name = plain_name(call.function)
    if call.kind != "operation":
        return
    if name in ("add", "sub"):
        for use in call.inputs:
            is_second = (use.place in ("1", "other")) is not is_number_first(call)
            turn = -1 if name == "sub" and is_second else 1
            yield use, -turn if is_second and number_of(call, "alpha", missing=1.0) < 0 else turn
    elif name == "addcmul":
        yield call.inputs[0], 1
        turn = -1 if number_of(call, "value", missing=1.0) < 0 else 1
        yield from ((use, turn * sign) for use, sign in _beside(flow, row, call.inputs[1:]))
    elif name == "neg":
        yield call.inputs[0], -1
    elif name in ("mul", "div") or (name in PRODUCTS and len(call.inputs) == _BOTH):
        yield from _factors(flow, row, call, name)
    elif name in _PASSED:
        yield from ((use, 1) for use in call.inputs)


def _factors(flow: Dataflow, row: int, call: Call, name: str) -> Iterator[tuple[TensorUse, int]]:
    """The factors beside which nothing has both signs."""
    if len(call.inputs) == 1:
        if not (name == "div" and is_number_first(call)):
            yield call.inputs[0], -1 if number_of(call, *OPERAND, missing=1.0) < 0 else 1
        return
    yield from _beside(flow, row, call.inputs[:_BOTH], is_either_way=name != "div")


def _beside(
    flow: Dataflow, row: int, factors: Sequence[TensorUse], *, is_either_way: bool = True
) -> Iterator[tuple[TensorUse, int]]:
    one, other = factors
    for use, beside in ((one, other), (other, one)) if is_either_way else ((one, other),):
        values = flow.values_of(beside, row)
        if values is not None and values.minimum is not None and values.maximum is not None:
            if values.minimum >= 0:
                yield use, 1
            elif values.maximum <= 0:
                yield use, -1
