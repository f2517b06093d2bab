"""What a loss asks from the output of a network: to go up or down, or to become a constant."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Literal

from msgspec import Struct

from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.loss_arguments import argument
from gradviz.analysis.rules.bases.signed_terms import Term, is_number_first, number_of
from gradviz.graph.call_log import Call


class Request(Struct, frozen=True):
    """What one term of a loss asks."""

    term: Term
    kind: Literal["direction", "constant"]
    wanted: float
    """1 for up and -1 for down; or the constant."""
    output: int
    """The tensor from which it is asked."""
    before: int
    """The call that takes it."""


_HALF = 0.5
_BINARY = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits"})
_SQUARES = frozenset({"pow", "square"})
_RISE = frozenset({
    "softplus", "relu", "logsigmoid", "sigmoid", "tanh", "leaky_relu", "view", "reshape", "squeeze", "flatten", "clamp",
    "exp", "log", "log1p", "mean", "sum", "elu",
})  # fmt: skip
_LAYERS = frozenset({"linear", "addmm", "conv1d", "conv2d", "conv3d", "matmul"})
_MAX_INNER = 12


def request_of(flow: Dataflow, term: Term) -> Request | None:
    """What a term asks; None if it is of no known form."""
    call = flow.log.calls[term.row]
    name = plain_name(call.function)
    if name in _BINARY or name == "mse_loss":
        output, target = argument(call, 0, "input"), argument(call, 1, "target")
        constant = None if target is None else _constant(flow, target.tensor, term.row)
        if output is None or not output.requires_grad or constant is None:
            return None
        if name == "mse_loss":
            return Request(term, "constant", constant, output.tensor, term.row) if term.sign > 0 else None
        up = term.sign if constant > _HALF else -term.sign
        return Request(term, "direction", up, output.tensor, term.row)
    if name in _SQUARES and call.live_inputs:
        return _of_square(flow, term, call) if term.sign > 0 else None
    return _of_output(flow, term)


def _constant(flow: Dataflow, tensor: int, row: int) -> float | None:
    """The value of a target, where all of it is on one side."""
    values = flow.values(tensor, row)
    if values is None or values.minimum is None or values.maximum is None:
        return None
    is_narrow = values.maximum - values.minimum < _HALF
    return (values.minimum + values.maximum) / 2 if is_narrow else None


def _of_square(flow: Dataflow, term: Term, call: Call) -> Request | None:
    """``(out - 1)**2`` or ``out**2``."""
    made = flow.newest_producer(call.inputs[0].tensor, term.row)
    inner = None if made is None else flow.log.calls[made]
    if made is None or inner is None or not inner.live_inputs:
        return None
    output, before, constant = call.inputs[0].tensor, term.row, 0.0
    if plain_name(inner.function) in ("sub", "add") and len(inner.inputs) == 1:
        number = number_of(inner, "1", "0", "other", missing=0.0)
        constant = number if plain_name(inner.function) == "sub" else -number
        output, before = inner.inputs[0].tensor, made
    elif len(inner.live_inputs) < len(inner.inputs) and plain_name(inner.function) == "sub":
        dead = next(use.tensor for use in inner.inputs if not use.requires_grad)
        found = _constant(flow, dead, made)
        if found is None:
            return None
        output, before, constant = inner.live_inputs[0].tensor, made, found
    return Request(term, "constant", constant, output, before)


def _of_output(flow: Dataflow, term: Term) -> Request | None:
    """A term that grows or falls with the output of a layer, such as ``softplus(-out)``."""
    row, sign = term.row, term.sign
    for _ in range(_MAX_INNER):
        call = flow.log.calls[row]
        name, live = plain_name(call.function), call.live_inputs
        if name in _LAYERS and call.outputs:
            return Request(term, "direction", -sign, call.outputs[0].tensor, row + 1)
        if len(live) != 1 or len(call.inputs) != 1:
            return None
        turned = _turn(call, name)
        made = flow.newest_producer(live[0].tensor, row)
        if not turned or made is None:
            return None
        row, sign = made, sign * turned
    return None


def _turn(call: Call, name: str) -> int:
    """1 for a call whose result grows with its input, -1 where it falls, 0 if that is not known."""
    if name in _RISE or name == "add":
        return 1
    if name == "neg":
        return -1
    if name == "sub":
        return -1 if is_number_first(call) else 1
    number = number_of(call, "1", "0", "other", missing=0.0)
    if name in ("mul", "div") and number and not (name == "div" and is_number_first(call)):
        return 1 if number > 0 else -1
    return 0


_MAX_REQUESTS = 100


def requests_in(flow: Dataflow, terms: list[Term]) -> Iterator[Request]:
    """What the terms of a loss ask."""
    found = (request_of(flow, term) for term in terms)
    yield from islice((each for each in found if each is not None), _MAX_REQUESTS)
