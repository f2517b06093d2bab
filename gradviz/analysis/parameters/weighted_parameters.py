"""Tensors as sums of parameters and of what a tensor was before, with factors that are numbers.

``t.mul_(a).add_(s, alpha=b)``, ``t.lerp_(s, b)``, ``t += b * (s - t)``, ``t.copy_(a * t + b * s)`` and the same on
lists (``torch._foreach_lerp_``) all are ``{t: a, s: b}``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from functools import cached_property

from gradviz.analysis.dataflow.broadcasts import shape_of
from gradviz.analysis.dataflow.call_words import plain_name
from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, TensorUse

Sum = dict[int, float]
"""Factors by tensor."""

_MAX_CALLS = 16
_BOTH = 2
_KEEPS = frozenset({"detach", "data", "clone", "to", "float", "double", "contiguous", "requires_grad", "cpu", "copy"})
_SHAPES = frozenset({"view", "reshape", "flatten", "ravel", "view_as"})


class WeightedParameters:
    """Reads the sums of one log."""

    def __init__(self, flow: Dataflow) -> None:
        self._flow = flow
        self._outputs: dict[int, dict[int | None, list[int]]] = {}
        """By call on lists, by storage: what it returns there."""

    def base(self, tensor: int) -> int:
        """The parameter whose memory a tensor shares as a whole, or the first tensor in its memory; else itself."""
        storage = self._flow.log.tensors[tensor].storage
        first = None if storage is None else self._bases.get(storage)
        return first if first is not None and self._is_as_large(first, tensor) else tensor

    def sum_of(self, tensor: int, before: int, since: int) -> Sum | None:
        """What a tensor was before a call, in what there was after the call `since`; None if it is no such sum."""
        found: Sum = defaultdict(float)
        waiting, count = [(tensor, before, 1.0)], 0
        while waiting:
            tensor, before, factor = waiting.pop()
            row = self._newest(tensor, before)
            if row is None or row <= since:
                found[self.base(tensor)] += factor
                continue
            parts = self._parts(row, tensor)
            count += 1
            if parts is None or count > _MAX_CALLS:
                return None
            waiting += [(each, row, factor * weight) for each, weight in parts]
        return dict(found)

    def call_on(self, row: int, tensor: int) -> Call:
        """What a call does for a tensor that it changes, also through another tensor with the same memory."""
        changed = self._output(row, tensor)
        return self._flow.log.calls[row] if changed is None else self._flow.lists.single(row, changed)

    def _output(self, row: int, tensor: int) -> int | None:
        """What a call returns in the memory of a tensor, as a whole."""
        outputs, storage = self._flow.log.calls[row].outputs, self._flow.log.tensors[tensor].storage
        found = [use.tensor for use in outputs]
        if len(found) > _BOTH:
            if row not in self._outputs:
                self._outputs[row] = defaultdict(list)
                for each in found:
                    self._outputs[row][self._flow.log.tensors[each].storage].append(each)
            found = self._outputs[row].get(storage, [])
        return next((each for each in found if self._is_in_memory_of(each, tensor)), None)

    def _newest(self, tensor: int, before: int) -> int | None:
        """The newest call before another one that made a tensor or changed its memory as a whole."""
        made = self._flow.producers(tensor, before)
        rows = list(made[-1:])
        storage = self._flow.log.tensors[tensor].storage
        changes = [] if storage is None else self.changes.get(storage, [])
        index = bisect_left(changes, before)
        rows += changes[index - 1 : index] if index else []
        return max(rows, default=None)

    def _parts(self, row: int, tensor: int) -> list[tuple[int, float]] | None:
        changed = self._output(row, tensor)
        return None if changed is None else parts_of(self._flow, self._flow.lists.single(row, changed), row)

    def _is_in_memory_of(self, one: int, other: int) -> bool:
        tensors = self._flow.log.tensors
        shares = tensors[one].storage is not None and tensors[one].storage == tensors[other].storage
        return one == other or (shares and self._is_as_large(one, other))

    def _is_as_large(self, one: int, other: int) -> bool:
        return sorted(shape_of(self._flow, one)) == sorted(shape_of(self._flow, other))

    @cached_property
    def _bases(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for number, tensor in enumerate(self._flow.log.tensors):
            if tensor.storage is not None and (tensor.role == "parameter" or tensor.storage not in found):
                found[tensor.storage] = number
        return found

    @cached_property
    def changes(self) -> dict[int, list[int]]:
        """By storage: the calls that changed something in it, oldest first."""
        rows: dict[int, list[int]] = defaultdict(list)
        for number, call in enumerate(self._flow.log.calls):
            for use in call.changed:
                storage = self._flow.log.tensors[use.tensor].storage
                if storage is not None and rows[storage][-1:] != [number]:
                    rows[storage].append(number)
        return dict(rows)


def parts_of(flow: Dataflow, call: Call, row: int) -> list[tuple[int, float]] | None:
    """The tensors that a call adds up, with their factors; None if it does something else."""
    name, inputs = plain_name(call.function), call.inputs
    if name == "copy" and len(inputs) == _BOTH:
        return [(inputs[1].tensor, 1.0)]
    if name in _KEEPS or name in _SHAPES:
        return [(inputs[0].tensor, 1.0)] if inputs else None
    if name == "neg":
        return [(inputs[0].tensor, -1.0)]
    if name in ("mul", "div"):
        return _scaled(flow, call, row)
    if name in ("add", "sub") and len(inputs) == _BOTH:
        alpha = number_given(call, "alpha")
        sign = (1.0 if alpha is None else alpha) * (1 if name == "add" else -1)
        is_turned = call.function.endswith("__rsub__")
        return [(inputs[0].tensor, sign if is_turned else 1.0), (inputs[1].tensor, 1.0 if is_turned else sign)]
    if name == "lerp":
        weight = number_given(call, "2", "weight")
        if weight is None and len(inputs) > _BOTH:
            weight = _one_number(flow, inputs[-1], row)
        return None if weight is None else [(inputs[0].tensor, 1 - weight), (inputs[1].tensor, weight)]
    return None


def _scaled(flow: Dataflow, call: Call, row: int) -> list[tuple[int, float]] | None:
    number, inputs = number_given(call, "1", "0", "other"), call.inputs
    is_first = call.function.endswith(("__rtruediv__", "__rdiv__"))
    if len(inputs) == _BOTH:
        numbers = [_one_number(flow, use, row) for use in inputs]
        if None not in numbers:
            return None
        place = 0 if numbers[0] is not None else 1
        number, inputs, is_first = numbers[place], (inputs[1 - place],), place == 0
    if number is None or not inputs or (plain_name(call.function) == "div" and (is_first or not number)):
        return None
    return [(inputs[0].tensor, 1 / number if plain_name(call.function) == "div" else number)]


def _one_number(flow: Dataflow, use: TensorUse, row: int) -> float | None:
    """The number of a tensor that holds one."""
    values = flow.values_of(use, row) if not shape_of(flow, use.tensor) else None
    return None if values is None or values.count != 1 else values.minimum


def number_given(call: Call, *places: str) -> float | None:
    """The number that a call got at the first of these places that has one."""
    for place in places:
        value = call.scalars.get(place)
        if type(value) in (int, float):
            return float(value)  # type: ignore[arg-type]
    return None
