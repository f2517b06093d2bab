"""Values that left torch and came back: through NumPy, as Python numbers, or as a parameter made from a result.

What happens in between is not recorded, so each connection has a certainty: shared memory proves it, a number that is
equal to the last digit, or to a usual function of a parameter, almost proves it, and otherwise only the order of events
suggests it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Literal

from msgspec import Struct

from gradviz.analysis.dataflow.cuts import is_exit
from gradviz.analysis.dataflow.values.functions_of_numbers import FunctionsOfNumbers, is_function_of
from gradviz.graph.call_log import Call, CallLog, TensorUse
from gradviz.graph.model import Scalar

Certainty = Literal["memory", "value", "order", "number"]
"""``order``: it came in after the other had left, in the same step, and in a call that makes tensors from outside;
``number``: as a number that may have been computed from one that had left in the same step (an equal index or bound, or
a float with many digits), which may be chance."""


class Reentry(Struct, frozen=True):
    """A value that came into a call from outside of torch."""

    exit: int
    """The call where it had left; if it is the memory of a result and that call is unknown, the call that made it."""
    tensor: int
    """The tensor that it was when it left."""
    into: int
    """The tensor that it is after it came back."""
    certainty: Certainty
    is_index: bool = False
    """Whether it only tells which elements of another tensor are taken."""


def find_reentries(log: CallLog) -> dict[int, tuple[Reentry, ...]]:
    """By call: the values that came into it from outside of torch, also in a tensor that it was the first to use."""
    found: dict[int, tuple[Reentry, ...]] = {}
    finder = _Finder(log)
    for number, call in enumerate(log.calls):
        entries = tuple(finder.of_call(number, call))
        if entries:
            found[number] = entries
    return found


_FROM_OUTSIDE = frozenset(
    {"torch.tensor", "torch.as_tensor", "torch.asarray", "torch.full", "torch.full_like", "torch.Tensor.new_tensor"}
)
_TAKE_INDICES = frozenset(
    f"torch.{prefix}{name}"
    for prefix in ("", "Tensor.")
    for name in ("__getitem__", "narrow", "select", "roll", "index_select", "take", "unfold")
)
_TRUTHS = ("__bool__", ".equal", ".allclose", ".is_nonzero")
"""They give true or false, from which no number is made that comes back: torch checks arguments so, too."""
_STEP_BOUNDARIES = frozenset({"backward", "step"})
_MANY_DIGITS = 12
_MAX_PARTS = 4
_MAX_BETWEEN = 6
"""A line that reads a number uses it within so many calls."""
_PARTS = (".detach", ".data", ".__getitem__", ".unbind", ".select", ".squeeze", ".cpu", ".float", ".view", ".reshape")
_OF_EACH_VALUE = (
    ".exp", ".log", ".softplus", ".sigmoid", ".tanh", ".square", ".sqrt", ".abs", ".clamp", ".clamp_min", ".clamp_max",
    ".reciprocal", ".neg",
)  # fmt: skip


class _Finder:
    """Reads the log from the first call to the last."""

    def __init__(self, log: CallLog) -> None:
        self._log = log
        self._left_with_value: dict[float, tuple[int, int]] = {}
        self._left_of_parameters = FunctionsOfNumbers()
        self._left_in_step: dict[bool, tuple[int, int]] = {}
        """The newest exit of this step: as a number (False), as an array (True)."""
        self._numbers_left = 0
        """How many numbers have left in this step."""
        self._left_as_whole: dict[int, tuple[int, int]] = {}
        """By number, the newest exit of this step as an integer."""
        self._given_first: dict[float, tuple[int, Scalar]] = {}
        """By number with many digits: the first call that got it, and what had left last by then."""
        self._left_as_array: dict[int, int] = {}
        """By tensor, its newest exit as an array."""
        self._left_with_memory: dict[int, tuple[int, int]] = {}
        """By storage, the newest exit as an array."""
        self._made_in_storage: dict[int, tuple[int, int]] = {}
        """By storage, the newest tensor with a ``grad_fn`` in it, with the call that made it."""
        self._started_from: set[int] = set()
        """Tensors that a backward started from, by their storage: a loss that is read for a log had its gradients."""
        self._descended: set[int] = set()
        """Tensors computed from something that requires grad."""

    def of_call(self, number: int, call: Call) -> Iterator[Reentry]:
        entries = [
            *self._of_memory(number, call),
            *(
                self._of_numbers(call)
                or [*self._of_numbers_just_read(number, call), *self._of_numbers_read_for(number, call)]
            ),
        ]
        # The gradient from which a backward begins is made by torch itself.
        if not entries and call.kind != "backward":
            entries = list(self._of_order(number, call)) or list(self._of_any_number(number, call))
        self._note_call(number, call, bool(entries))
        return iter(entries)

    def _of_memory(self, number: int, call: Call) -> Iterator[Reentry]:
        for use in call.inputs:
            tensor = self._log.tensors[use.tensor]
            if tensor.first_seen != number or tensor.producer is not None or not use.is_leaf:
                continue
            storage = tensor.storage
            if tensor.role != "parameter" and storage in self._left_with_memory:
                yield Reentry(*self._left_with_memory[storage], use.tensor, "memory")
                continue
            made = self._made_in_storage.get(storage) if storage is not None else None
            if made is not None and made[1] != use.tensor:
                yield Reentry(*made, use.tensor, "memory")
            elif tensor.from_numpy_of is not None:
                origin = self._log.tensors[tensor.from_numpy_of]
                left = self._left_as_array.get(tensor.from_numpy_of, origin.producer)
                if left is not None and left < number:
                    yield Reentry(left, tensor.from_numpy_of, use.tensor, "memory")

    def _of_numbers(self, call: Call) -> list[Reentry]:
        scalars = [each for each in call.scalars.values() if isinstance(each, float)] if call.outputs else []
        left = (self._left_with_value.get(each) or self._left_of_parameters.find(each) for each in scalars)
        return [Reentry(*each, call.outputs[0].tensor, "value") for each in left if each is not None]

    def _of_numbers_just_read(self, number: int, call: Call) -> Iterator[Reentry]:
        """``torch.tensor([a.item(), b.item()])`` of numbers such as 0.0, which alone say nothing: the calls right
        before have read them in this order."""
        is_from_outside = call.function in _FROM_OUTSIDE and call.outputs
        scalars = [each for each in call.scalars.values() if type(each) is float] if is_from_outside else []
        read = self._log.calls[max(number - len(scalars), 0) : number]
        if [each.result for each in read] != scalars or not all(is_exit(each) and each.inputs for each in read):
            return
        for row, each in enumerate(read, start=number - len(read)):
            use = each.inputs[0]
            if use.requires_grad or use.tensor in self._descended:
                yield Reentry(row, use.tensor, call.outputs[0].tensor, "value")

    def _of_numbers_read_for(self, number: int, call: Call) -> Iterator[Reentry]:
        """``self.scale * x``, where a property returns ``math.exp(self.log_scale.item())``: the line of a call, or a
        function that it has called, has just read a parameter, and the call takes a usual function of that number,
        such as 1.0."""
        scalars = [each for each in call.scalars.values() if type(each) is float] if call.outputs else []
        for row in range(max(number - _MAX_BETWEEN, 0), number if scalars else 0):
            read = self._log.calls[row]
            if type(read.result) is float and is_exit(read) and read.inputs and self._is_of_line(call, read):
                is_taken = any(is_function_of(each, read.result) for each in scalars)
                if is_taken and self._is_part_of_parameter(read.inputs[0].tensor, _PARTS + _OF_EACH_VALUE):
                    yield Reentry(row, read.inputs[0].tensor, call.outputs[0].tensor, "value")

    def _is_of_line(self, call: Call, read: Call) -> bool:
        """Whether a number was read on the line of a call, or inside a function that this line had called."""
        if call.call_site is None:
            return False
        sites = self._log.call_sites
        line, site = sites[call.call_site], read.call_site
        while site is not None and sites[site] != line:
            site = sites[site].caller
        return site is not None

    def _of_any_number(self, number: int, call: Call) -> Iterator[Reentry]:
        if call.function in _TAKE_INDICES and call.outputs:
            whole = {scalar for scalar in call.scalars.values() if type(scalar) is int and scalar not in (0, 1, -1)}
            for left in sorted({self._left_as_whole[each] for each in whole if each in self._left_as_whole}):
                yield Reentry(*left, call.outputs[0].tensor, "number", is_index=True)
        left_as_number = self._left_in_step.get(False)
        if left_as_number is None:
            return
        if call.outputs and any(self._may_come_from(left_as_number[0], each) for each in call.scalars.values()):
            yield Reentry(*left_as_number, call.outputs[0].tensor, "number")
        for use in call.inputs:
            if self._is_from_outside(use, number):
                yield Reentry(*left_as_number, use.tensor, "number")

    def _may_come_from(self, left: int, scalar: Scalar) -> bool:
        """Whether a number may have been computed from one that had left: not pi, or another constant of the program,
        which was given to torch before, when something else had left."""
        if not isinstance(scalar, float) or not looks_computed(scalar):
            return False
        first, result = self._given_first.get(scalar, (left, None))
        return first >= left or result == self._log.calls[left].result is not None

    def _of_order(self, number: int, call: Call) -> Iterator[Reentry]:
        for use in call.inputs:
            if self._is_from_outside(use, number) and True in self._left_in_step:
                yield Reentry(*self._left_in_step[True], use.tensor, "order")
        is_from_outside = call.function in _FROM_OUTSIDE and call.outputs and not self._has_literals(call)
        if is_from_outside and self._is_floating(call.outputs[0].tensor):
            was_array = not call.inputs and all(type(scalar) in (bool, str) for scalar in call.scalars.values())
            left = self._left_in_step.get(was_array)
            # An array of more numbers than have left is other data, as the next batch is.
            if left is None and (not was_array or self._size(call.outputs[0].tensor) <= self._numbers_left):
                left = self._left_in_step.get(not was_array)
            if left is not None:
                yield Reentry(*left, call.outputs[0].tensor, "order")

    def _has_literals(self, call: Call) -> bool:
        """Whether the values that a call takes from outside are numbers written in the program: floats with few digits,
        or integers of which none has left. The sizes of ``torch.full()`` are no values."""
        is_full = "full" in call.function
        values = [each for place, each in call.scalars.items() if not (is_full and "[" in place)]
        if any(isinstance(each, float) for each in values):
            return any(isinstance(each, float) and not looks_computed(each) for each in values)
        whole = [each for each in values if type(each) is int]
        return bool(whole) and self._left_as_whole.keys().isdisjoint(whole)

    def _note_call(self, number: int, call: Call, has_entries: bool) -> None:
        if call.kind == "backward":
            self._started_from.update(self._log.memory_of(use.tensor) for use in call.roots)
        if call.kind in _STEP_BOUNDARIES:
            self._left_in_step.clear()
            self._left_as_whole.clear()
            self._numbers_left = 0
        left = self._left_in_step.get(False)
        for each in call.scalars.values():
            if isinstance(each, float) and looks_computed(each):
                self._given_first.setdefault(each, (number, None if left is None else self._log.calls[left[0]].result))
        is_descended = has_entries or any(use.requires_grad or use.tensor in self._descended for use in call.inputs)
        if not is_descended:
            return
        if call.kind in ("operation", "custom", "compiled"):
            self._descended.update(use.tensor for use in call.outputs)
        for use in call.outputs:
            storage = self._log.tensors[use.tensor].storage
            if use.has_grad_fn and storage is not None:
                self._made_in_storage[storage] = number, use.tensor
        if is_exit(call) and call.inputs:
            self._note_exit(call, (number, call.inputs[0].tensor))

    def _note_exit(self, call: Call, left: tuple[int, int]) -> None:
        is_array = call.function.endswith(("numpy", "__array__"))
        if not call.function.endswith(_TRUTHS) and self._log.memory_of(left[1]) not in self._started_from:
            self._left_in_step[is_array] = left
            self._numbers_left += 0 if is_array else self._size(left[1])
        if is_array:
            self._left_as_array[left[1]] = left[0]
            storage = self._log.tensors[left[1]].storage
            if storage is not None:
                self._left_with_memory[storage] = left
        is_of_parameter = self._is_part_of_parameter(left[1])
        for value in (call.result, *call.results):
            if isinstance(value, float) and value != int_or_none(value):
                self._left_with_value[value] = left
                if is_of_parameter:
                    self._left_of_parameters.add(value, left)
            elif type(value) is int:
                self._left_as_whole[value] = left

    def _is_part_of_parameter(self, number: int, made_by: tuple[str, ...] = _PARTS) -> bool:
        """Whether a tensor is a parameter, or a part of one, or what such calls made of it."""
        for _ in range(_MAX_PARTS):
            tensor = self._log.tensors[number]
            if tensor.role == "parameter" or (tensor.is_leaf and tensor.requires_grad):
                return True
            call = None if tensor.producer is None else self._log.calls[tensor.producer]
            if call is None or not call.inputs or not call.function.endswith(made_by):
                return False
            number = call.inputs[0].tensor
        return False

    def _is_from_outside(self, use: TensorUse, number: int) -> bool:
        tensor = self._log.tensors[use.tensor]
        is_new = tensor.first_seen == number and tensor.producer is None and tensor.role == "tensor"
        return is_new and use.is_leaf and self._is_floating(use.tensor)

    def _size(self, tensor: int) -> int:
        return prod(size for size in self._log.tensors[tensor].facts.shape if isinstance(size, int))

    def _is_floating(self, tensor: int) -> bool:
        return self._log.tensors[tensor].facts.is_differentiable


def looks_computed(scalar: object) -> bool:
    """Whether a float has too many digits to be written in a program by hand."""
    return isinstance(scalar, float) and len(repr(scalar)) >= _MANY_DIGITS


def int_or_none(value: float) -> int | None:
    """The integer that `value` equals; None for all others, NaN and Inf included."""
    return int(value) if value - value == 0 and value == int(value) else None
