"""What becomes of data before the first layer of a network gets them, and from which tensor they come."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.analysis.rules.bases.evaluations.network_outputs import SAME_VALUES
from gradviz.graph.call_log import Call


class Preparation(Struct, frozen=True):
    """How a tensor was made of data."""

    root: int
    """The tensor that the data were taken from."""
    steps: tuple[str, ...]
    """The names of the functions that change their values, and their numbers; the first one first."""
    rows: tuple[int, ...]
    """Their calls."""
    effects: tuple[str, ...]
    """What they do, whatever they are called: ``2 * x - 1`` and ``(x - 0.5) / 0.5`` have the same effect."""


TAKE = frozenset({"getitem", "index_select", "split", "chunk", "unbind", "narrow", "select"})
"""What takes samples out of data."""
_ARRANGE = TAKE | {"flip", "roll", "pad"}
_MOVES = frozenset({"transpose", "permute", "movedim"})
_OF_ONE = _MOVES | {"log", "log1p", "exp", "sqrt", "tanh", "sigmoid", "square", "abs", "clamp"}
_OF_TWO = frozenset({"add", "sub", "mul", "div", "true_divide"})
_DRAWS = frozenset({
    "randn", "rand", "randn_like", "rand_like", "normal", "bernoulli", "uniform", "randint", "randperm", "sample",
})  # fmt: skip
_MAX_CALLS = 16


def preparation(flow: Dataflow, tensor: int, before: int) -> Preparation | None:
    """None where something happens to the data that is not known here, or that takes random numbers or anything else
    that is neither a constant nor computed from the data."""
    steps, rows, root = list[str](), list[int](), tensor
    first = next(iter(flow.rows_of_kind("backward")), before)
    for row, call in flow.makers(tensor, before, _MAX_CALLS):
        if not call.inputs:
            break  # It was made here, of no other tensor.
        name = plain_name(call.function)
        if name in _OF_ONE and _changes_values(flow, row, call):
            steps.append(name)
            rows.append(row)
        elif name in _OF_TWO and row < first and _adds_noise(flow, row, call):
            break  # So these samples were drawn, around what another tensor says.
        elif name in _OF_TWO:
            operand = _operand(flow, row, call, first)
            if operand is None:
                return None
            steps.append(f"{name} {operand}".rstrip())
            rows.append(row)
        elif name not in SAME_VALUES | _ARRANGE | _OF_ONE:
            if row > first or not call.outputs:
                return None
            break  # So the data were made, before the training.
        root = call.inputs[0].tensor
    steps, rows = steps[::-1], rows[::-1]
    return Preparation(root, tuple(steps), tuple(rows), _effects(flow, steps, rows))


def _adds_noise(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether the other operand was drawn for each of the values."""
    if len(call.inputs) <= 1 or not call.outputs:
        return False
    other = call.inputs[1].tensor
    is_of_each = shape_of(flow, other) == shape_of(flow, call.outputs[0].tensor)
    return is_of_each and any(plain_name(made.function) in _DRAWS for _, made in flow.makers(other, row, _MAX_CALLS))


def _changes_values(flow: Dataflow, row: int, call: Call) -> bool:
    """Whether a call does anything: bounds that no value reaches do not."""
    before, after = flow.values_of(call.inputs[0], row), call.outputs[0].values if call.outputs else None
    if plain_name(call.function) not in ("clamp", "abs") or before is None or after is None:
        return True
    return (before.minimum, before.maximum) != (after.minimum, after.maximum)


def _effects(flow: Dataflow, steps: list[str], rows: list[int]) -> tuple[str, ...]:
    """The steps, where products and sums with numbers that follow each other are one: a factor and what is added."""
    found, factor, added = list[str](), 1.0, 0.0
    for step, row in zip(steps, rows, strict=True):
        name, _, number = step.partition(" ")
        call = flow.log.calls[row]
        if number and set(call.scalars) <= _OPERANDS and "__r" not in call.function and name != "rsub":
            of_step, shift = _AFFINE[name](float(number))
            factor, added = factor * of_step, added * of_step + shift
            continue
        found += _affine(factor, added)
        factor, added = 1.0, 0.0
        found.append(f"moved to {shape_of(flow, call.outputs[0].tensor)[1:]}" if name in _MOVES else step)
    return (*found, *_affine(factor, added))


_OPERANDS = {"1", "other"}
_AFFINE: dict[str, Callable[[float], tuple[float, float]]] = {
    "add": lambda number: (1.0, number),
    "sub": lambda number: (1.0, -number),
    "mul": lambda number: (number, 0.0),
    "div": lambda number: (1 / number if number else 0.0, 0.0),
    "true_divide": lambda number: (1 / number if number else 0.0, 0.0),
}


def _affine(factor: float, added: float) -> list[str]:
    text = f"{factor:.3g} * x + {added:.3g}"
    return [] if text == "1 * x + 0" else [text]


def _operand(flow: Dataflow, row: int, call: Call, first: int) -> str | None:
    """The number that a call adds, or by which it multiplies; nothing for a tensor that is as old as the first backward
    or is computed from the data; None for any other one."""
    others = call.inputs[1:]
    if not others:
        numbers = [value for value in call.scalars.values() if isinstance(value, int | float)]
        return f"{numbers[0]:.6g}" if numbers else ""
    made = flow.newest_producer(others[0].tensor, row)
    if made is None or made < first:
        return ""
    data, other = (flow.ancestors(use.tensor, row, first) for use in (call.inputs[0], others[0]))
    is_random = any(plain_name(flow.log.calls[each].function) in _DRAWS for each in {*other} - {*data})
    origins = {_origin(flow, use.tensor, row, first) for use in (call.inputs[0], others[0])}
    return "" if len(origins) == 1 and not is_random else None


def _origin(flow: Dataflow, tensor: int, before: int, first: int) -> int:
    """The memory, as old as the first backward, that is at the beginning of a chain of first inputs."""
    for row, call in flow.makers(tensor, before, _MAX_CALLS):
        if row < first or not call.inputs:
            break
        tensor = call.inputs[0].tensor
    return flow.memory_of(tensor)
