"""Sums of the past of each time step, that calls make of whole sequences: a triangular matrix times the sequence, or
``cumsum()``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.dataflow.einsum_equations import equation_of
from gradviz.graph.call_log import Call, TensorUse

Half = Literal["lower", "upper"]


class PastSum(Struct, frozen=True):
    """A call that adds up, for each time step, what came before it and the step itself."""

    row: int
    made: int
    """The call that decides about the order: the one that keeps half of the matrix, or the sum itself."""
    summed: TensorUse
    """The sequence."""
    is_by_matrix: bool


def past_sums(flow: Dataflow) -> Iterator[PastSum]:
    """Those of sequences without a gradient; the first few of each line."""
    tried: dict[int | None, int] = {}
    for row, call in enumerate(flow.log.calls):
        name = plain_name(call.function)
        if name not in _PRODUCTS and name not in ("cumsum", "sum"):
            continue
        if call.kind != "operation" or call.live_inputs or not call.outputs or tried.get(call.call_site, 0) >= _MOST:
            continue
        tried[call.call_site] = tried.get(call.call_site, 0) + 1
        if name == "cumsum":
            if not _is_turned(flow, call.inputs[0].tensor, row):
                yield PastSum(row, row, call.inputs[0], is_by_matrix=False)
            continue
        for matrix, sequence, past in _factors(flow, row, call, name):
            half = _half_of(flow, matrix, row)
            if half is not None and half[0] == past:
                yield PastSum(row, half[1], sequence, is_by_matrix=True)
                break


_MOST = 4
_BOTH = 2
_MAX_MAKERS = 12
_PRODUCTS = frozenset({"matmul", "mm", "mv", "einsum", "linear"})
_TURNED = frozenset({"flip", "flipud", "fliplr"})
_TRANSPOSES = frozenset({"t", "T", "mT", "transpose", "swapaxes", "permute", "adjoint"})
_ELEMENTWISE = frozenset({
    "mul", "div", "pow", "exp", "sqrt", "to", "float", "double", "contiguous", "clone", "detach", "bool", "int", "long",
})  # fmt: skip
_COMPARES: dict[str, Half] = {"ge": "lower", "gt": "lower", "le": "upper", "lt": "upper"}
OTHER_HALF: dict[Half, Half] = {"lower": "upper", "upper": "lower"}


def _is_turned(flow: Dataflow, tensor: int, row: int) -> bool:
    """Whether a sequence was turned around before it is added up."""
    return any(plain_name(call.function) in _TURNED for _, call in flow.makers(tensor, row, 4))


# -- products ----------------------------------------------------------------------------------------------------------


def _factors(flow: Dataflow, row: int, call: Call, name: str) -> Iterator[tuple[TensorUse, TensorUse, Half]]:
    """The square matrix of a product, the sequence, and which half of the matrix has the steps before each."""
    if name == "sum":
        yield from _factors_by_hand(flow, row, call)
    if len(call.inputs) != _BOTH:
        return
    one, other = call.inputs
    if name == "einsum":
        yield from _factors_of_einsum(flow, call)
    elif name == "linear":
        yield from ((other, one, half) for half in _squares(flow, other, "lower"))
    else:
        yield from ((one, other, half) for half in _squares(flow, one, "lower"))
        yield from ((other, one, half) for half in _squares(flow, other, "upper"))


def _factors_by_hand(flow: Dataflow, row: int, call: Call) -> Iterator[tuple[TensorUse, TensorUse, Half]]:
    """The same for ``(matrix * sequences[:, None]).sum(-1)``."""
    made = flow.newest_producer(call.inputs[0].tensor, row)
    product = None if made is None else flow.log.calls[made]
    shape = shape_of(flow, call.inputs[0].tensor)
    if product is None or plain_name(product.function) != "mul" or len(product.inputs) != _BOTH or len(shape) != 3:
        return
    half: Half | None = {1: "upper", 2: "lower"}.get(axis_of(call, len(shape)) or 0)  # type: ignore[assignment]
    for matrix, sequence in (product.inputs, reversed(product.inputs)):
        if half is not None and len(shape_of(flow, sequence.tensor)) == len(shape):
            yield from ((matrix, sequence, each) for each in _squares(flow, matrix, half))


def _squares(flow: Dataflow, use: TensorUse, half: Half) -> Iterator[Half]:
    shape = shape_of(flow, use.tensor)
    if len(shape) == _BOTH and shape[0] == shape[1] > _BOTH:
        yield half


def _factors_of_einsum(flow: Dataflow, call: Call) -> Iterator[tuple[TensorUse, TensorUse, Half]]:
    equation = equation_of(call)
    for matrix, term, sequence in zip(call.inputs, equation.terms, reversed(call.inputs), strict=False):
        if len(equation.terms) != _BOTH or len(term) != _BOTH:
            continue
        kept = [letter in equation.result for letter in term]
        if kept in ([True, False], [False, True]):
            for half in _squares(flow, matrix, "lower" if kept[0] else "upper"):
                yield matrix, sequence, half


# -- the half of a matrix that is not zero -----------------------------------------------------------------------------


def _half_of(flow: Dataflow, use: TensorUse, before: int) -> tuple[Half, int] | None:
    """Which half of a matrix is not zero, and the call that left the other one out; its numbers are between 0 and 1."""
    values = flow.values_of(use, before)
    if values is None or values.minimum != 0 or values.maximum is None or not 0 < values.maximum <= 1:
        return None
    waiting, is_other = [(use.tensor, before, False)], False
    for _ in range(_MAX_MAKERS):
        if not waiting:
            break
        tensor, before, is_other = waiting.pop()
        row = flow.newest_producer(tensor, before)
        if row is None:
            continue
        call = flow.log.calls[row]
        name = plain_name(call.function)
        half = made_half(flow, row, call, name)
        if half is not None:
            return (OTHER_HALF[half] if is_other else half), row
        if name in _TRANSPOSES:
            waiting.append((call.inputs[0].tensor, row, not is_other))
        elif name == "masked_fill":
            waiting.append((call.inputs[1].tensor, row, not is_other))
        elif name in _ELEMENTWISE or name == "where":
            size = shape_of(flow, tensor)
            waiting += [(each.tensor, row, is_other) for each in call.inputs if shape_of(flow, each.tensor) == size]
    return None


def made_half(flow: Dataflow, row: int, call: Call, name: str) -> Half | None:
    """Which half a call leaves: ``tril()``, ``triu()``, or a comparison of the numbers of rows and columns."""
    if name in ("tril", "triu"):
        return "lower" if name == "tril" else "upper"
    half = _COMPARES.get(name.strip("_"))
    if half is None or not call.inputs:
        return None
    if len(call.inputs) == 1:
        # i[:, None] - j[None] >= 0
        made = flow.newest_producer(call.inputs[0].tensor, row)
        difference = None if made is None else flow.log.calls[made]
        if difference is None or plain_name(difference.function) != "sub" or call.scalars.get("1", 0) != 0:
            return None
        call = difference
    if len(call.inputs) != _BOTH:
        return None
    first, second = (shape_of(flow, use.tensor) for use in call.inputs)
    if first[-1:] == (1,) != second[-1:]:
        return half
    return OTHER_HALF[half] if second[-1:] == (1,) != first[-1:] else None
