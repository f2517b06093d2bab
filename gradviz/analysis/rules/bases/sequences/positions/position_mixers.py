"""Products of a sequence with a square matrix that mixes its positions, and which positions each one reads by that."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.analysis.rules.bases.sequences.past_sums import OTHER_HALF, Half, made_half
from gradviz.graph.call_log import Call, TensorUse

_BOTH = 2
_MAX_CALLS = 12
_PRODUCTS = frozenset({"matmul", "mm", "bmm"})
MIXING = _PRODUCTS | {"linear", "einsum"}
_TURNS = frozenset({"t", "T", "mT", "transpose", "swapaxes", "adjoint"})
_NEGATES = frozenset({"logical_not", "invert", "bitwise_not"})
_PASSES = frozenset({
    "mul", "div", "exp", "to", "float", "bool", "contiguous", "clone", "detach", "unsqueeze", "expand", "getitem",
    "where", "type_as", "dropout", "softmax",
})  # fmt: skip


class Mixer(Struct, frozen=True):
    """A product that sums over the positions of a sequence."""

    matrix: TensorUse
    sequence: TensorUse
    past: Half
    """Which half of the matrix has, for each result, the positions before it."""


def reads_later(flow: Dataflow, row: int, lengths: frozenset[int]) -> tuple[Mixer, bool] | None:
    """The product that a call is, if each of its results is made of later positions; and whether of all of them."""
    for mixer in _mixers(flow, flow.log.calls[row], lengths):
        shape = shape_of(flow, mixer.sequence.tensor)
        if shape.count(shape_of(flow, mixer.matrix.tensor)[-1]) != 1:
            continue  # features may be as many as positions
        half = _half_left(flow, mixer.matrix, row)
        if half is not None:
            return None if half == mixer.past else (mixer, False)
        if _is_full_parameter(flow, mixer.matrix, row):
            return mixer, True
    return None


def _mixers(flow: Dataflow, call: Call, lengths: frozenset[int]) -> Iterator[Mixer]:
    name = plain_name(call.function)
    if len(call.inputs) < _BOTH or call.kind != "operation":
        return
    one, other = call.inputs[:_BOTH]
    if name in _PRODUCTS:
        if _is_square(flow, one, lengths):
            yield Mixer(one, other, "lower")
        if _is_square(flow, other, lengths):
            yield Mixer(other, one, "upper")
    elif name == "linear" and _is_square(flow, other, lengths):
        yield Mixer(other, one, "lower")
    elif name == "einsum" and len(call.inputs) == _BOTH:
        equation = equation_of(call)
        for matrix, term, sequence in zip(call.inputs, equation.terms, call.inputs[::-1], strict=False):
            kept = [letter in equation.result for letter in term[-_BOTH:]]
            if _is_square(flow, matrix, lengths) and kept in ([True, False], [False, True]):
                yield Mixer(matrix, sequence, "lower" if kept[0] else "upper")


def _is_square(flow: Dataflow, use: TensorUse, lengths: frozenset[int]) -> bool:
    shape = shape_of(flow, use.tensor)
    return len(shape) >= _BOTH and shape[-1] == shape[-2] and shape[-1] in lengths


def _half_left(flow: Dataflow, use: TensorUse, before: int) -> Half | None:
    """Which half of a matrix is not zero, as the calls say that made it; None if none says so."""
    waiting, size = [(use.tensor, before, False)], shape_of(flow, use.tensor)[-1]
    for _ in range(_MAX_CALLS):
        if not waiting:
            return None
        tensor, until, is_other = waiting.pop()
        row = flow.newest_producer(tensor, until)
        if row is None:
            continue
        call = flow.log.calls[row]
        name = plain_name(call.function)
        half = made_half(flow, row, call, name)
        if half is not None:
            return OTHER_HALF[half] if is_other else half
        if name in _NEGATES or (name == "eq" and call.scalars.get("1") in (0, False)) or name in _TURNS:
            is_other = not is_other
        elif name in ("eq", "ne", "gt") and len(call.inputs) == 1 and call.scalars.get("1") == (name == "eq"):
            pass
        elif name == "masked_fill" and len(call.inputs) > 1:
            waiting.append((call.inputs[1].tensor, row, not is_other))
            continue
        elif name not in _PASSES or _begins_later(call) or (name == "softmax" and not _is_of_rows(flow, call)):
            continue
        waiting += [(each.tensor, row, is_other) for each in call.inputs if shape_of(flow, each.tensor)[-1:] >= (size,)]
    return None


def _begins_later(call: Call) -> bool:
    return any(place.endswith(".start") and value for place, value in call.scalars.items())


def _is_of_rows(flow: Dataflow, call: Call) -> bool:
    rank = len(shape_of(flow, call.inputs[0].tensor))
    return axis_of(call, rank) == rank - 1


def _is_full_parameter(flow: Dataflow, use: TensorUse, before: int) -> bool:
    """Whether a matrix is trained, and no element of it is zero."""
    values = flow.values_of(use, before)
    tensor = use.tensor
    for _, call in flow.makers(use.tensor, before, _MAX_CALLS):
        if plain_name(call.function) not in ("getitem", "t", "T", "mT", "transpose") or _begins_later(call):
            return False
        tensor = call.inputs[0].tensor
    is_flat = len(shape_of(flow, use.tensor)) == _BOTH
    return is_flat and flow.log.tensors[tensor].role == "parameter" and values is not None and not values.zeros
