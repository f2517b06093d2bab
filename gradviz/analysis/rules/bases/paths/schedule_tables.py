"""Factors that were looked up in a table by steps that were drawn: the noise schedule of a diffusion."""

from __future__ import annotations

from math import exp, expm1, log, log1p, prod, sqrt

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.losses.loss_arguments import SHAPE_ONLY
from gradviz.analysis.rules.bases.losses.signed_terms import OPERAND, is_number_first, number_of
from gradviz.graph.call_log import Call


class TableFactor(Struct, frozen=True):
    """A factor from a table that was made of equal steps, without a product over them."""

    lookup: int
    """The call that looks it up."""
    source: int
    """The call of ``linspace()``."""
    ends: tuple[float, float]
    """The factor at the least and the largest number of the table."""
    has_root: bool
    """Whether it is the root of something linear in the equal steps."""
    root_of_table: int | None
    """The call that took the root of the whole table, or its logarithm, if one did."""


class _Lookup(Struct, frozen=True):
    row: int
    table: int
    """The tensor with the numbers of the table."""


_BOTH = 2
_HALF = 0.5
_MAX_STEPS = 20
_MIN_ENTRIES = 10
_LOOKUPS = frozenset({"getitem", "gather", "index_select", "take", "embedding"})
_DRAWS = frozenset({"randint", "rand", "random", "randint_like", "multinomial"})
_OF_INDEX = frozenset({"long", "mul", "sub", "add", "int", "floor", "cat", *SHAPE_ONLY})
_SPLITS = frozenset({"unbind", "chunk", "split", "tensor_split"})
_JOINS = frozenset({"stack", "column_stack", "cat", "hstack", "vstack"})
_CARRY = frozenset({"repeat", "take", "select", *_SPLITS, *SHAPE_ONLY})
_FUNCTIONS = {"exp": exp, "expm1": expm1, "log": log, "log1p": log1p}
_LOGARITHMS = frozenset({"log", "log1p"})
_CHANGES = frozenset({"sub", "add", "mul", "sqrt", "square", "pow", "neg", *_FUNCTIONS})


def table_factor(flow: Dataflow, tensor: int, before: int) -> TableFactor | None:
    """The factor that a tensor is, if it was looked up in such a table."""
    changes: list[Call] = []
    inner: list[tuple[int, Call]] = []
    found: _Lookup | None = None
    column: int | None = None
    for _ in range(_MAX_STEPS):
        made = flow.producers(tensor, before)
        call = flow.log.calls[made[-1]] if made else None
        if call is None:
            return None
        row, name, following = made[-1], plain_name(call.function), call.inputs[0].tensor if call.inputs else None
        if name == "linspace":
            return None if found is None else _factor(flow, found, row, changes, inner)
        if name in _LOOKUPS and len(call.inputs) == _BOTH:
            table, places = call.inputs[::-1] if name == "embedding" else call.inputs
            if found is not None or not _is_drawn(flow, row, places.tensor):
                return None
            found, following = _Lookup(row, table.tensor), table.tensor
        elif name in _JOINS and column is not None and len(call.inputs) > column:
            # One column of a table of several: the numbers are those of what was stacked there.
            following, column = call.inputs[column].tensor, None
            found = None if found is None else _Lookup(found.row, following)
        elif not _is_known(call):
            return None
        elif name not in _CARRY:
            (changes.append(call) if found is None else inner.append((row, call)))
        else:
            index = _index_of(call, tensor)
            column = column if index is None else index
        if following is None:
            return None
        tensor, before = following, row
    return None


def _index_of(call: Call, tensor: int) -> int | None:
    """Which of several parts a call takes."""
    name = plain_name(call.function)
    if name in _SPLITS:
        return next((index for index, use in enumerate(call.outputs) if use.tensor == tensor), None)
    if name not in ("getitem", "select"):
        return None
    places = ("2", "index") if name == "select" else ("1", "1[0]", "1[1]")
    number = next((call.scalars[place] for place in places if type(call.scalars.get(place)) is int), None)
    return number if type(number) is int and number >= 0 else None


def _factor(
    flow: Dataflow, found: _Lookup, source: int, changes: list[Call], inner: list[tuple[int, Call]]
) -> TableFactor | None:
    row, table = found.row, found.table
    values = flow.values(table, row)
    if values is None or values.minimum is None or values.maximum is None:
        return None
    if prod(shape_of(flow, table)) < _MIN_ENTRIES:
        return None
    ends = [_changed(value, changes) for value in (values.minimum, values.maximum)]
    least, largest = ends
    if least is None or largest is None:
        return None
    logarithm = next((made for made, call in inner if plain_name(call.function) in _LOGARITHMS), None)
    root = next((made for made, call in inner if _is_root(call)), None)
    every = [*changes, *(call for _, call in inner)]
    has_root = any(_is_root(call) or (logarithm is not None and _is_half(call)) for call in every)
    root = root if logarithm is None else logarithm
    return TableFactor(row, source, (least, largest), has_root, root)


def _is_drawn(flow: Dataflow, row: int, places: int) -> bool:
    """Whether the places at which a call looks something up were drawn."""
    for _, maker in flow.makers(places, row, _MAX_STEPS):
        name = plain_name(maker.function)
        if name in _DRAWS:
            return True
        if name not in _OF_INDEX:
            return False
    return False


def _is_half(call: Call) -> bool:
    """Whether a call halves a logarithm: the exponential is the root."""
    name, number = plain_name(call.function), number_of(call, *OPERAND, missing=0.0)
    return (name == "mul" and number == _HALF) or (name == "div" and number == _BOTH)


def _is_root(call: Call) -> bool:
    name = plain_name(call.function)
    return name == "sqrt" or (name == "pow" and number_of(call, "1", "exponent", missing=1.0) == _HALF)


def _is_known(call: Call) -> bool:
    """Whether a call changes the numbers of a table one by one, in a way that `_changed` knows."""
    name = plain_name(call.function)
    is_ratio = name == "div" and not is_number_first(call)
    return len(call.inputs) == 1 and (name in _CARRY or name in _CHANGES or is_ratio)


def _changed(value: float, changes: list[Call]) -> float | None:
    """What becomes of a number of the table; the calls are listed the last one first."""
    for call in reversed(changes):
        name, number = plain_name(call.function), number_of(call, *OPERAND, missing=0.0)
        if name == "sub":
            value = number - value if is_number_first(call) else value - number
        elif name == "add":
            value += number
        elif name == "neg":
            value = -value
        elif name in _FUNCTIONS:
            try:
                value = _FUNCTIONS[name](value)
            except (ValueError, OverflowError):
                return None  # The logarithm of a negative number, for example: it is no factor.
        elif name in ("mul", "div"):
            value = value * number if name == "mul" else value / (number or 1.0)
        elif _is_root(call):
            if value < 0:
                return None
            value = sqrt(value)
        elif name == "square" or number == _BOTH:
            value *= value
        else:
            return None
    return value
