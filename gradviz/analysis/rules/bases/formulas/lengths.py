"""Euclidean lengths of vectors in any spelling, and what a program divides by them.

>>> from gradviz.graph.call_log import Call, CallLog, LoggedTensor, TensorUse
>>> from gradviz.graph.tensor_facts import TensorFacts
>>> x, length, result = (TensorUse(n, str(n), 0, True, n == 0) for n in range(3))
>>> shapes = ((4, 3), (4, 1), (4, 3))
>>> norm = Call("torch.Tensor.norm", inputs=(x,), outputs=(length,), scalars={"dim": 1, "keepdim": True})
>>> division = Call("torch.Tensor.div", inputs=(x, length), outputs=(result,))
>>> log = CallLog((norm, division), tuple(LoggedTensor(TensorFacts(shape, "float32")) for shape in shapes))
>>> found = division_by_length(Dataflow(log), 1, division)
>>> found.vectors, found.is_own
(0, True)
"""

from __future__ import annotations

from msgspec import Struct

from gradviz.analysis.dataflow.axes import axis_of
from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call

_EUCLIDEAN = 2
_TWO = 2
_MAX_MAKERS = 8
_SCALE = frozenset({"mul", "div"})
_NORMS = frozenset({"norm", "vector_norm", "linalg_norm", "linalg_vector_norm"})
SAME_VALUES = frozenset({
    "unsqueeze", "squeeze", "expand", "expand_as", "view", "reshape", "detach", "to", "float", "double", "clone",
    "getitem", "contiguous",
})  # fmt: skip
"""They keep values, or take some of them."""
_AROUND = SAME_VALUES | {"clamp", "clamp_min", "add", "maximum", "clip"}
_PRODUCTS_WITH_ITSELF = frozenset({"einsum", "vecdot", "dot", "inner"})


_Rows = tuple[int, tuple[object, ...]]
"""A tensor, and by what rows were taken of it, one after the other."""


class Division(Struct, frozen=True):
    """Vectors that are divided by lengths, or multiplied by their inverse."""

    vectors: int
    length: int
    rows: _Rows
    """What the vectors are."""
    of: _Rows
    """The vectors whose lengths these are."""

    @property
    def is_own(self) -> bool:
        return self.rows == self.of


def division_by_length(flow: Dataflow, row: int, call: Call) -> Division | None:
    """The vectors and the lengths by which a call divides them; None for other calls."""
    name = plain_name(call.function)
    if name not in _SCALE or len(call.inputs) != _TWO:
        return None
    first, second = call.inputs
    for vectors, length in ((first, second), (second, first)) if name == "mul" else ((first, second),):
        found = _length(flow, length.tensor, row)
        if found is not None and found[1] == (1 if name == "div" else -1):
            of, picks = _rows_of(flow, found[0], row)
            rows = _rows_of(flow, vectors.tensor, row)
            return Division(vectors.tensor, length.tensor, rows, (of, (*picks, *found[2])))
    return None


def _rows_of(flow: Dataflow, tensor: int, before: int) -> _Rows:
    """Of which tensor another one has rows, and which ones."""
    picks: tuple[object, ...] = ()
    for _, call in flow.makers(tensor, before, _MAX_MAKERS):
        pick = _pick(flow, call)
        if pick is None and plain_name(call.function) not in ("detach", "clone", "contiguous"):
            break
        picks = picks if pick is None else (pick, *picks)
        tensor = call.inputs[0].tensor
    return tensor, picks


def _pick(flow: Dataflow, call: Call) -> object | None:
    """By what a call takes rows of its first input, if it does: numbers of rows, a slice, or a turn."""
    name = plain_name(call.function)
    given, made = (shape_of(flow, each[0].tensor) if each else () for each in (call.inputs, call.outputs))
    numbers = tuple(sorted((place, value) for place, value in call.scalars.items() if type(value) is int))
    if name in ("roll", "flip") and len(call.inputs) == 1:
        return name, *numbers
    if name == "index_select" and len(call.inputs) == _TWO and axis_of(call, len(given)) == 0:
        return call.inputs[1].tensor
    if name != "getitem" or given[1:] != made[1:]:
        return None
    if len(call.inputs) == _TWO and not numbers:
        return call.inputs[1].tensor
    return numbers if numbers and len(call.inputs) == 1 else None


def _length(flow: Dataflow, tensor: int, before: int) -> tuple[int, float, tuple[object, ...]] | None:
    """The vectors of whose lengths a tensor is a power, which power, and by what rows were taken of the lengths."""
    power, is_summed, picks = 1.0, False, tuple[object, ...]()
    for row, call in flow.makers(tensor, before, _MAX_MAKERS):
        name, numbers = plain_name(call.function), call.scalars
        exponent = numbers.get("1", numbers.get("exponent"))
        if name in _NORMS:
            is_plain = numbers.get("p", numbers.get("ord", numbers.get("1", _TWO))) in ("fro", _EUCLIDEAN, None)
            return (_vectors(flow, call, row), power, picks) if is_plain else None
        is_of_itself = len(call.inputs) == _TWO and call.inputs[0].tensor == call.inputs[1].tensor
        if is_of_itself and name in _PRODUCTS_WITH_ITSELF:
            return _vectors(flow, call, row), 2 * power, picks
        if is_summed and (name == "square" or (name == "pow" and exponent == _TWO) or (name == "mul" and is_of_itself)):
            return _vectors(flow, call, row), 2 * power, picks
        factor = _POWERS.get(name, exponent if name == "pow" and type(exponent) in (int, float) else None)
        if name == "div" and call.function.endswith(("rdiv__", "rtruediv__")) and len(call.inputs) == 1:
            factor = -1.0
        pick = _pick(flow, call)
        if pick is not None:
            picks = (pick, *picks)
        elif factor is not None:
            power *= float(factor)
        elif name == "getitem" and len(call.inputs) > 1:
            return None
        elif name == "sum":
            is_summed = True
        elif name not in _AROUND:
            return None
    return None


_POWERS = {"sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0}


def _vectors(flow: Dataflow, call: Call, row: int) -> int:
    """What a length is taken of, before it was detached."""
    tensor = call.inputs[0].tensor
    for _, above in flow.makers(tensor, row, _TWO):
        if plain_name(above.function) not in ("detach", "clone"):
            break
        tensor = above.inputs[0].tensor
    return tensor
