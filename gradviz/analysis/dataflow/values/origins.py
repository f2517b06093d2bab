"""The origin of values of a kind (NaN, Inf, only zeros): the first call that returned them but did not receive them.

It uses the values in the call log: figures of every result of a call, and of those inputs that were new. Views are
followed through the memory that they share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from math import isfinite
from typing import NamedTuple

from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, TensorUse, ValueFacts

Kind = Callable[[ValueFacts], bool]
_Received = tuple[int, int]
"""A tensor, and the call that received it, by their numbers in the log."""


class Origin(NamedTuple):
    """A call that made values of the kind from others, or the first call that received them if none made them."""

    call: int
    tensor: int
    """The tensor that holds them."""
    is_unseen: bool = False
    """True if the call only received it: it came from a file, NumPy, or a library that torch does not see."""


def has_nan(values: ValueFacts) -> bool:
    """Whether some value is NaN."""
    return bool(values.nans)


def is_broken(values: ValueFacts) -> bool:
    """Whether some value is NaN or Inf."""
    return not values.is_finite


def is_all_zero(values: ValueFacts) -> bool:
    """Whether every value is exactly zero."""
    return values.zeros == values.count > 0


def is_one_number(values: ValueFacts | None) -> bool:
    """Whether values are known to be all the same."""
    return values is not None and values.minimum is not None and values.minimum == values.maximum


class ValueOrigins:
    """Answers for one log."""

    def __init__(self, flow: Dataflow) -> None:
        self._flow = flow
        self._log = flow.log
        self._oldest: defaultdict[Kind, dict[_Received, Origin]] = defaultdict(dict)

    def of_kind(self, tensor: int, at: int, kind: Kind) -> tuple[Origin, ...]:
        """The origins of the values of this kind in a tensor, as the call `at` received it; oldest first."""
        found: set[Origin] = set()
        seen = {(tensor, at)}
        waiting = [(tensor, at)]
        while waiting:
            origin, given = self._step_back(waiting.pop(), kind)
            if origin is not None:
                found.add(origin)
            waiting.extend(each for each in given if each not in seen)
            seen.update(given)
        return tuple(sorted(found))

    def oldest_of_kind(self, tensor: int, at: int, kind: Kind) -> Origin:
        """The first of `of_kind`, with a cache for loops that ask at every step."""
        oldest = self._oldest[kind]
        waiting = [(tensor, at)]
        while waiting:
            received = waiting[-1]
            # Each call is older than the one before it, so this ends.
            origin, given = self._step_back(received, kind)
            unknown = [each for each in given if each not in oldest]
            if unknown:
                waiting.extend(unknown)
                continue
            oldest[received] = min(oldest[each] for each in given) if origin is None else origin
            waiting.pop()
        return oldest[tensor, at]

    def _step_back(self, received: _Received, kind: Kind) -> tuple[Origin | None, list[_Received]]:
        """One step back from a received tensor: its origin, or the call that received such values itself."""
        tensor, at = received
        maker = self._maker(tensor, at, kind)
        if maker is None:
            return Origin(self._first_use(tensor, at, kind), tensor, is_unseen=True), []
        given = [use.tensor for use in self.inputs_of_kind(maker, kind)]
        if self._log.calls[maker].kind == "step":  # a step changes each parameter separately
            given = [each for each in given if each == tensor]
        return (None, [(each, maker) for each in given]) if given else (Origin(maker, tensor), [])

    def inputs_of_kind(self, row: int, kind: Kind) -> list[TensorUse]:
        """Inputs of a call that had such values."""
        return [use for use in self._log.calls[row].inputs if self._is(use, row, kind)]

    def outputs_of_kind(self, row: int, kind: Kind) -> list[TensorUse]:
        """Results of a call that have such values."""
        return [use for use in self._log.calls[row].outputs if use.values is not None and kind(use.values)]

    def _is(self, use: TensorUse, row: int, kind: Kind) -> bool:
        values = self._flow.values_of(use, row)
        return values is not None and kind(values)

    def _maker(self, tensor: int, at: int, kind: Kind) -> int | None:
        """The newest call before `at` that left such values in the tensor, also through a view."""
        for row in reversed(self._flow.producers(tensor, at)):
            if any(use.tensor == tensor for use in self.outputs_of_kind(row, kind)):
                return row
        for row in reversed(self._flow.changes(tensor, -1, at)):
            if self.outputs_of_kind(row, kind):
                return row
        if not self._flow.producers(tensor, at):
            return self._maker_of_memory(tensor, at, kind)
        return None

    def _maker_of_memory(self, tensor: int, at: int, kind: Kind) -> int | None:
        """The oldest call that returned a tensor in the same memory: ``nn.Parameter(t)`` is no recorded call."""
        for shared in self._flow.sharing_memory(tensor):
            for row in self._flow.producers(shared, at):
                if any(use.tensor == shared for use in self.outputs_of_kind(row, kind)):
                    return row
        return None

    def _first_use(self, tensor: int, at: int, kind: Kind) -> int:
        """The first call that received the tensor with such values; `at` if no earlier values were read."""
        for row in self._flow.users(tensor):
            if row >= at:
                break
            if any(use.tensor == tensor and self._is(use, row, kind) for use in self._log.calls[row].inputs):
                return row
        return at


def is_asked_for(call: Call) -> bool:
    """Whether the program put the NaN or Inf there itself: ``masked_fill(mask, float("-inf"))``."""
    return any(isinstance(scalar, float) and not isfinite(scalar) for scalar in call.scalars.values())
