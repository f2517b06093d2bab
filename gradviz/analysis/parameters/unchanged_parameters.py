"""Parameters on which an optimizer steps, and whose values at the end of the run are those before the first step."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from gradviz.analysis.parameters.gradient_events import GradientEvents
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import ValueFacts

Reason = Literal[
    "no backward", "cleared", "no learning rate", "zero", "rounded away", "short dtype", "lost", "unknown"
]  # fmt: skip
"""``no backward``: none reaches them; ``cleared``: every gradient is cleared before a step; ``no learning rate``:
that of their group is 0; ``zero``: the last gradient is exactly zero; ``rounded away``: the last step is smaller than
the last digit of the values; ``short dtype``: the same where the dtype has 16 bits; ``lost``: the last step should have
changed them."""

_EPSILON = {"float64": 2.3e-16, "float32": 1.2e-7, "bfloat16": 7.9e-3, "float16": 9.8e-4}
"""By dtype: about the smallest relative change that it shows."""
_SHORT = frozenset({"bfloat16", "float16"})


class Unchanged(Struct, frozen=True):
    """Parameters that never change for the same reason."""

    tensors: tuple[int, ...]
    reason: Reason
    steps: int
    """Steps on the first of them."""
    step: int
    """The first call of ``step()`` that had them."""
    clear: int | None = None
    """If their gradients are cleared too early: the first call that does so."""


def unchanged_parameters(histories: ParameterHistories) -> tuple[Unchanged, ...]:
    """Those that required grad in a step, by reason and by the line of the step."""
    tensors = histories.log.tensors
    stepped = _steps_by_tensor(histories)
    still = [
        number for number in sorted(stepped) if (end := tensors[number].end) is not None and end.has_changed is False
    ]
    groups: dict[tuple[Reason, int | None, object], list[int]] = defaultdict(list)
    events = GradientEvents(histories) if still else None
    for number in still:
        clear = None if events is None else _early_clear(events, number, stepped[number])
        reason = _reason(histories, number, clear)
        where = histories.log.calls[stepped[number][0]].call_site
        groups[reason, clear if reason == "cleared" else None, where].append(number)
    return tuple(
        Unchanged(tuple(each), reason, len(stepped[each[0]]), stepped[each[0]][0], clear)
        for (reason, clear, _), each in groups.items()
    )


def _steps_by_tensor(histories: ParameterHistories) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for row in histories.steps:
        for use in histories.log.calls[row].inputs:
            if use.requires_grad:
                found[use.tensor].append(row)
    return found


def _reason(histories: ParameterHistories, number: int, clear: int | None) -> Reason:
    if number not in histories.reached:
        return "no backward"
    if clear is not None:
        return "cleared"
    rates = list(_learning_rates(histories, number))
    if rates and all(rate == 0.0 for rate in rates):
        return "no learning rate"
    return _reason_by_size(histories, number, max((rate for rate in rates if rate is not None), default=None))


def _reason_by_size(histories: ParameterHistories, number: int, rate: float | None) -> Reason:
    """By the size of the last gradient, if the program has not cleared it."""
    tensor = histories.tensor(number)
    gradient = None if tensor.end is None else tensor.end.grad
    if gradient is not None and gradient.zeros == gradient.count:
        return "zero"
    dtype = (tensor.end and tensor.end.dtype) or tensor.facts.dtype
    epsilon = _EPSILON.get(dtype)
    values = _last_values(histories, number)
    if gradient is None or values is None or rate is None or epsilon is None:
        return "unknown"
    if rate * _largest(gradient) > epsilon * _largest(values):
        return "lost" if _was_stepped_on(histories, number) else "unknown"
    return "short dtype" if dtype in _SHORT else "rounded away"


def _was_stepped_on(histories: ParameterHistories, number: int) -> bool:
    """Whether a step came after the last backward that reached it: else its last gradient was never used."""
    calls = histories.log.calls
    last = next((row for row in reversed(histories.reached_by) if number in histories.reached_by[row]), None)
    steps = (row for row in reversed(histories.steps) if any(use.tensor == number for use in calls[row].inputs))
    step = next(steps, None)
    return last is not None and step is not None and last < step


def _last_values(histories: ParameterHistories, number: int) -> ValueFacts | None:
    calls = histories.log.calls
    uses = (use for row in reversed(histories.steps) for use in calls[row].outputs if use.tensor == number)
    return next((use.values for use in uses if use.values is not None), None)


def _largest(values: ValueFacts) -> float:
    return max(abs(values.minimum or 0.0), abs(values.maximum or 0.0))


def _learning_rates(histories: ParameterHistories, number: int) -> Iterator[float | None]:
    for index in histories.optimizers_of(number):
        optimizer = histories.log.optimizers[index]
        for group, rate in zip(optimizer.groups, optimizer.learning_rates, strict=False):
            if number in group:
                yield rate


def _early_clear(events: GradientEvents, number: int, steps: list[int]) -> int | None:
    """The first of the calls that clear its gradient, if before each step with a gradient there is one behind the last
    backward."""
    own = events.events.get(number, [])
    rows = [row for row, _ in own]
    found: list[int] = []
    for step in steps:
        before = own[: bisect_left(rows, step)]
        # A step before the first backward has nothing to lose.
        backwards = [row for row, kind in before if kind == "backward"]
        clears = [row for row, kind in before if kind == "clear" and backwards and row > backwards[-1]]
        if backwards and not clears:
            return None
        found += clears[:1]
    return found[0] if found else None
