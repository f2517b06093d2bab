"""What a loss asks from the output of a network: to go up or down, or to become a constant."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Literal

from msgspec import Struct

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import argument, value_maker
from gradviz.analysis.rules.bases.losses.signed_terms import Term, is_number_first, number_of
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
_JOINS = frozenset({"cat", "vstack"})
_FEWEST_PARTS = 2


def request_of(flow: Dataflow, term: Term) -> Request | None:
    """What a term asks; None if it is of no known form."""
    call = flow.log.calls[term.row]
    name = plain_name(call.function)
    if name in _BINARY or name == "mse_loss":
        output, target = argument(call, 0, "input"), argument(call, 1, "target")
        constant = None if target is None else _constant(flow, target.tensor, term.row)
        if output is None or not output.requires_grad or constant is None:
            return None
        return _of_constant(term, name, constant, output.tensor, term.row)
    if name in _SQUARES and call.live_inputs:
        return _of_square(flow, term, call) if term.sign > 0 else None
    return _of_output(flow, term)


def _of_constant(term: Term, name: str, constant: float, output: int, before: int) -> Request | None:
    """What a loss function with a constant target asks."""
    if name == "mse_loss":
        return Request(term, "constant", constant, output, before) if term.sign > 0 else None
    return Request(term, "direction", term.sign if constant > _HALF else -term.sign, output, before)


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
    yield from islice((each for term in terms for each in _requests_of(flow, term)), _MAX_REQUESTS)


def _requests_of(flow: Dataflow, term: Term) -> Iterator[Request]:
    whole = request_of(flow, term)
    if whole is not None:
        yield whole
    else:
        yield from _by_parts(flow, term)


def _by_parts(flow: Dataflow, term: Term) -> Iterator[Request]:
    """What a loss asks of each part of a batch that was joined, such as generated and real samples, where its targets
    were joined in the same way: ``bce(net(cat((fake, real))), cat((zeros, ones)))``."""
    call = flow.log.calls[term.row]
    name = plain_name(call.function)
    output, target = argument(call, 0, "input"), argument(call, 1, "target")
    if name not in _BINARY | {"mse_loss"} or output is None or target is None or not output.requires_grad:
        return
    made = value_maker(flow, target.tensor, term.row)
    sizes = None if made is None else _rows_of_parts(flow, *made)
    joined = None if sizes is None else _joined_before(flow, output.tensor, term.row, sizes)
    if made is None or joined is None:
        return
    for part, constant in zip(flow.log.calls[joined].inputs, made[1].inputs, strict=True):
        value = _constant(flow, constant.tensor, made[0])
        request = None if value is None else _of_constant(term, name, value, part.tensor, joined)
        if request is not None:
            yield request


def _rows_of_parts(flow: Dataflow, row: int, call: Call) -> list[int] | None:
    """How many rows each part has, if a call joins parts along the first axis."""
    shapes = [shape_of(flow, use.tensor) for use in call.inputs]
    if plain_name(call.function) not in _JOINS or len(shapes) < _FEWEST_PARTS or not all(shapes):
        return None
    axis = axis_of(call, len(shapes[0])) if call.scalars else 0
    return [shape[0] for shape in shapes] if axis == 0 else None


def _joined_before(flow: Dataflow, tensor: int, row: int, sizes: list[int]) -> int | None:
    """The last call that joined parts with as many rows, from which an output was computed."""
    calls = flow.log.calls
    above = reversed(flow.ancestors(tensor, row, flow.step_before(row)))
    return next((each for each in above if _rows_of_parts(flow, each, calls[each]) == sizes), None)
