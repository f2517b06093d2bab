"""Parameters on which an optimizer steps, and whose values at the end of the run are those before the first step."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from itertools import zip_longest
from typing import Literal

from msgspec import Struct

from gradviz.analysis.cuts.cut_causes import is_gradient
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.gradients.gradient_events import GradientEvents
from gradviz.analysis.parameters.kept_values import ASSIGNS_DATA
from gradviz.analysis.parameters.parameter_histories import ParameterHistories
from gradviz.graph.call_log import Call, LoggedTensor, ValueFacts
from gradviz.graph.gradients import TensorFigures

Reason = Literal[
    "no backward", "returned", "cleared", "no learning rate", "zero", "rounded away", "short dtype", "lost",
    "written back", "restored later", "derivative", "unknown",
]  # fmt: skip
"""``no backward``: none reaches them; ``returned``: only calls of ``autograd.grad()`` do; ``cleared``: every gradient
is cleared before a step; ``no learning rate``: that of their group is 0; ``zero``: the last gradient is exactly zero;
``rounded away``: the last step is smaller than the last digit of the values; ``short dtype``: the same where the dtype
has 16 bits; ``lost``: the last step should have changed them; ``written back``: the program writes values into them
behind each step; ``restored later``: it does so behind the last of several; ``derivative``: no gradient arrives, as the
loss is computed from a derivative that does not depend on them."""

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
    blamed: int | None = None
    """The first call that clears their gradients too early, the last that returns them and fills no ``.grad``, or the
    last that writes the old values back."""


def unchanged_parameters(histories: ParameterHistories) -> tuple[Unchanged, ...]:
    """Those that required grad in a step, by reason and by the line of the step."""
    return _UnchangedParameters(histories).by_reason()


class _UnchangedParameters:
    """Finds them, with one pass over the steps and one over the backward calls."""

    def __init__(self, histories: ParameterHistories) -> None:
        self._histories = histories
        self._calls = histories.log.calls
        self._events = GradientEvents(histories)

    def by_reason(self) -> tuple[Unchanged, ...]:
        tensors, stepped = self._histories.log.tensors, self._live_steps
        still = [number for number in sorted(stepped) if _is_unchanged(tensors[number])]
        groups: dict[tuple[Reason, int | None, int | None], list[int]] = defaultdict(list)
        blames: dict[tuple[Reason, int | None, int | None], int | None] = {}
        for number in still:
            clear = _early_clear(self._events, number, stepped[number])
            reason = self._reason(number, clear)
            steps = stepped[number]
            if reason == "lost" and (self._is_filled_only_later(number, steps) or self._is_at_a_bound(number, steps)):
                continue
            written = self._written_back(number, stepped[number]) if reason == "lost" else None
            if written is not None:
                reason = "written back" if written[1] else "restored later"
            where = self._calls[stepped[number][0]].call_site
            blamed = {"cleared": clear, "returned": self._histories.last_reach.get(number)}.get(reason)
            by, blamed = (blamed, blamed) if written is None else (self._calls[written[0]].call_site, written[0])
            groups[reason, by, where].append(number)
            blames.setdefault((reason, by, where), blamed)
        return tuple(
            Unchanged(tuple(each), key[0], len(stepped[each[0]]), stepped[each[0]][0], blames[key])
            for key, each in groups.items()
        )

    def _written_back(self, number: int, steps: list[int]) -> tuple[int, bool] | None:
        """The last call by which the program replaces the values behind the last step, and whether one does so behind
        each step, before anything reads them."""
        flow = self._histories.flow
        rows = sorted({*flow.changes(number, steps[0], len(self._calls)), *flow.data_assignments.get(number, ())})
        writes = [row for row in rows if self._calls[row].inside is None and _replaces_values(self._calls[row])]
        if not writes or writes[-1] < steps[-1]:
            return None
        # What reads them between the two uses what the step has computed, as the adaptation to one sample does.
        events = [(row, True) for row in writes] + [(row, False) for row in flow.users(number) if self._reads(row)]
        events.sort()
        after = (events[min(bisect_right(events, (step, True)), len(events) - 1)] for step in steps)
        return writes[-1], len(steps) > 1 and all(is_write for _, is_write in after)

    def _is_filled_only_later(self, number: int, steps: list[int]) -> bool:
        """Whether the program fills it with one value behind the last step, as where an adapter was merged into the
        weights: that it had the same value when it was made says nothing about the steps. It may do so again and again
        if something reads, before each time, what the steps have computed."""
        flow = self._histories.flow
        rows = flow.changes(number, steps[0], len(self._calls))
        fills = [row for row in rows if plain_name(self._calls[row].function) in _FILL]
        if not fills or fills[-1] < steps[-1]:
            return False
        reads = [row for row in flow.users(number) if self._reads(row)]
        before = (steps[bisect_right(steps, row) - 1] for row in fills)
        return fills[0] > steps[-1] or all(
            any(step < read < row for read in reads) for step, row in zip(before, fills, strict=True)
        )

    def _is_at_a_bound(self, number: int, steps: list[int]) -> bool:
        """Whether a clamp behind the last step holds it at the bound where it began, as the multiplier of a constraint
        that is met; not one whose two bounds are the same."""
        rows = self._histories.flow.changes(number, steps[-1], len(self._calls))
        clamps = (self._calls[row] for row in rows if plain_name(self._calls[row].function) in _CLAMPS)
        bounds = (list(call.scalars.values()) for call in clamps)
        return any(len(set(each)) == len(each) for each in bounds)

    def _reads(self, row: int) -> bool:
        call = self._calls[row]
        return call.inside is None and call.kind == "operation" and plain_name(call.function) not in _READ_NO_VALUES

    @cached_property
    def _live_steps(self) -> dict[int, list[int]]:
        """By tensor: the steps on it while it required grad."""
        found: dict[int, list[int]] = defaultdict(list)
        for row in self._histories.steps:
            for use in self._calls[row].inputs:
                if use.requires_grad:
                    found[use.tensor].append(row)
        return found

    @cached_property
    def _last_values(self) -> dict[int, ValueFacts]:
        """By tensor: its values after the last step whose values are known."""
        return {
            use.tensor: use.values
            for row in self._histories.steps
            for use in self._calls[row].outputs
            if use.values is not None
        }

    def _reason(self, number: int, clear: int | None) -> Reason:
        if number not in self._histories.reached:
            return "no backward"
        rates = list(_learning_rates(self._histories, number))
        is_still = bool(rates) and all(rate == 0.0 for rate in rates)
        reaching = (row for row, reached in self._histories.reached_by.items() if number in reached)
        if not is_still and all(is_gradient(self._calls[row]) for row in reaching):
            return "returned"
        if clear is not None:
            return "cleared"
        if is_still:
            return "no learning rate"
        return self._reason_by_size(number, max((rate for rate in rates if rate is not None), default=None))

    def _reason_by_size(self, number: int, rate: float | None) -> Reason:
        """By the size of the last gradient that a step used."""
        tensor = self._histories.tensor(number)
        gradient = self._last_used(number)
        if gradient is not None and gradient.zeros == gradient.count:
            return "zero"
        dtype = (tensor.end and tensor.end.dtype) or tensor.facts.dtype
        epsilon = _EPSILON.get(dtype)
        values = self._last_values.get(number)
        if number in self._histories.without_influence:
            return "derivative"
        if gradient is None or values is None or rate is None or epsilon is None:
            return "unknown"
        if rate * _largest(gradient) > epsilon * _largest(values):
            return "lost" if self._histories.was_stepped_on(number) else "unknown"
        return "short dtype" if dtype in _SHORT else "rounded away"

    def _last_used(self, number: int) -> ValueFacts | TensorFigures | None:
        """The gradient in its ``.grad`` at the end, or else what a recorded graph brought. Where another loss brought
        one after the last step, as that of a generator does to its critic, that of the backward before."""
        figures = self._histories.received.figures(number)
        if self._histories.was_stepped_on(number) or number not in self._histories.last_step:
            end = self._histories.tensor(number).end
            return (end and end.grad) or (figures[-1][1] if figures else None)
        step = self._histories.last_step[number]
        rows = ((self._histories.flow.row_of_backward(backward), each) for backward, each in reversed(figures))
        return next((each for row, each in rows if row is not None and row < step), None)


def _is_unchanged(tensor: LoggedTensor) -> bool:
    """Whether its values are those before the first step: at the end, or, if it was freed before, after the last."""
    return (tensor.is_moved if tensor.end is None else tensor.end.has_changed) is False


def _replaces_values(call: Call) -> bool:
    """Whether a call gives a tensor values that do not depend on those it had."""
    return call.function == ASSIGNS_DATA or plain_name(call.function) in _REPLACE


_REPLACE = frozenset({"copy", "set", "setitem"})
_CLAMPS = frozenset({"clamp", "clip", "clamp_min", "clamp_max", "relu"})
_FILL = frozenset({"zero", "fill"})
_READ_NO_VALUES = frozenset({"data", "detach", "data.__set__", "set", "copy", "grad", "requires_grad", "setitem"})


def _largest(values: ValueFacts | TensorFigures) -> float:
    return max(abs(values.minimum or 0.0), abs(values.maximum or 0.0))


def _learning_rates(histories: ParameterHistories, number: int) -> Iterator[float | None]:
    """Those of its groups at the end; of a schedule that ends at 0, the highest one."""
    for index in histories.optimizers_of(number):
        optimizer, steps = histories.log.optimizers[index], len(histories.steps_by_optimizer.get(index, ()))
        known = zip_longest(optimizer.groups, optimizer.learning_rates, optimizer.highest_rates, optimizer.idle_steps)
        for group, rate, highest, idle in known:
            if group is not None and number in group:
                yield highest if rate == 0.0 and highest and idle is not None and idle < steps else rate


def _early_clear(events: GradientEvents, number: int, steps: list[int]) -> int | None:
    """The first of the calls that clear its gradient, if before each step with a gradient there is one behind the last
    backward."""
    first: int | None = None
    own = iter(events.events.get(number, []))
    event = next(own, None)
    is_filled, clear = False, None
    for step in steps:
        while event is not None and event[0] < step:
            row, kind = event
            if kind == "backward":
                is_filled, clear = True, None
            elif kind == "clear" and is_filled and clear is None:
                clear = row
            event = next(own, None)
        # A step before the first backward has nothing to lose.
        if is_filled and clear is None:
            return None
        first = clear if first is None else first
    return first
