"""Factors that were looked up in a table by steps that were drawn: the noise schedule of a diffusion."""

from __future__ import annotations

from math import prod, sqrt

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
    """The call that took the root of the whole table, if one did."""


_BOTH = 2
_HALF = 0.5
_MAX_STEPS = 20
_MIN_ENTRIES = 10
_LOOKUPS = frozenset({"getitem", "gather", "index_select", "take", "embedding"})
_DRAWS = frozenset({"randint", "rand", "random", "randint_like", "multinomial"})
_OF_INDEX = frozenset({"long", "mul", "sub", "add", "int", "floor", "cat", *SHAPE_ONLY})
_CARRY = frozenset({"repeat", "take", *SHAPE_ONLY})
_CHANGES = frozenset({"sub", "add", "mul", "sqrt", "square", "pow"})


def table_factor(flow: Dataflow, tensor: int, before: int) -> TableFactor | None:
    """The factor that a tensor is, if it was looked up in such a table."""
    changes: list[Call] = []
    inner: list[tuple[int, Call]] = []
    found: tuple[int, int] | None = None
    for row, call in flow.makers(tensor, before, _MAX_STEPS):
        name = plain_name(call.function)
        if name == "linspace":
            return None if found is None else _factor(flow, found, row, changes, inner)
        if name in _LOOKUPS and len(call.inputs) == _BOTH:
            if found is not None or not _is_drawn(flow, row, call):
                return None
            found = row, call.inputs[0].tensor
        elif not _is_known(call):
            return None
        elif name not in _CARRY and found is None:
            changes.append(call)
        elif name not in _CARRY:
            inner.append((row, call))
    return None


def _factor(
    flow: Dataflow, found: tuple[int, int], source: int, changes: list[Call], inner: list[tuple[int, Call]]
) -> TableFactor | None:
    row, table = found
    values = flow.values(table, row)
    if values is None or values.minimum is None or values.maximum is None:
        return None
    if prod(shape_of(flow, table)) < _MIN_ENTRIES:
        return None
    ends = [_changed(value, changes) for value in (values.minimum, values.maximum)]
    least, largest = ends
    if least is None or largest is None:
        return None
    root = next((made for made, call in inner if _is_root(call)), None)
    has_root = root is not None or any(_is_root(call) for call in changes)
    return TableFactor(row, source, (least, largest), has_root, root)


def _is_drawn(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call looks up what stands at places that were drawn."""
    for _, maker in flow.makers(call.inputs[1].tensor, row, _MAX_STEPS):
        name = plain_name(maker.function)
        if name in _DRAWS:
            return True
        if name not in _OF_INDEX:
            return False
    return False


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
