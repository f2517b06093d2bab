"""Logs optimizers: which tensors each holds, when it stepped, and when gradients were cleared; also new parameters.

torch's global hooks report steps. Construction of an optimizer and clearing of gradients are seen by what their methods
read of every parameter: the frame that reads belongs to the method, and its ``self`` is the optimizer.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch.nn.modules import module as module_call
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from gradviz.graph.call_log import CallKind
from gradviz.recording.backward.gradients.gradient_watch import measuring
from gradviz.recording.calls.known_tensors import KnownTensor, requires_grad
from gradviz.recording.calls.learning_rates import RateTurns
from gradviz.recording.calls.row_writer import CallWriter
from gradviz.recording.calls.rows import Row, RowUse
from gradviz.recording.calls.shared_parameters import SharedParameters
from gradviz.recording.fingerprints.checksum import checksum_of
from gradviz.recording.forward.module_tree import modules_inside
from gradviz.recording.frame_variables import local_variables
from gradviz.recording.run.file_kinds import torch_folder
from gradviz.recording.run.line_attribution import calling_frame
from gradviz.recording.torch_access.modules import own_modules, own_parameters
from gradviz.recording.torch_access.removed_hooks import remove_hooks
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION, version_of


@dataclass(eq=False)
class KnownOptimizer:
    """An optimizer that was made or that stepped."""

    weak: weakref.ref[Any]
    class_name: str
    names: dict[str, None] = field(default_factory=dict)
    groups: list[list[KnownTensor]] = field(default_factory=list)
    learning_rates: list[float | None] = field(default_factory=list)
    highest_rates: list[float | None] = field(default_factory=list)
    idle_steps: list[int] = field(default_factory=list)
    weight_decays: list[float | None] = field(default_factory=list)
    decays_apart: bool = False
    epsilons: list[float | None] = field(default_factory=list)
    betas: list[tuple[float, float] | None] = field(default_factory=list)
    steps_from_zero: int = 0
    has_moved: bool = False
    keeps_state: bool = False
    keeps_squares: bool = False
    maximizes: bool = False
    turns: RateTurns = field(default_factory=RateTurns)
    made_rates: dict[int, float | None] = field(default_factory=dict)
    """The learning rate that each group was added with, by the ``id()`` of the group."""
    levelled_steps: int = 0

    def note_group(self, group: Any) -> None:
        """A group is added: what it does not say itself it will get from the defaults."""
        if isinstance(group, dict) and id(group) not in self.made_rates:
            defaults = getattr(self.weak(), "defaults", None)
            of_all = defaults.get("lr") if isinstance(defaults, dict) else None
            self.made_rates[id(group)] = _number(group.get("lr", of_all))

    def note_rates(self) -> None:
        """A step begins: compare its learning rates with earlier ones, and with those that a schedule began with."""
        groups = getattr(self.weak(), "param_groups", ())
        self.has_moved = self.has_moved or any(rate != 0 for rate in self.learning_rates)
        self.steps_from_zero += not self.has_moved
        self.turns.note(self.learning_rates[0] if self.learning_rates else None)
        self.levelled_steps += self._is_levelled(groups)
        self.maximizes = self.maximizes or any(group.get("maximize") is True for group in groups)
        for index, (rate, group) in enumerate(zip(self.learning_rates, groups, strict=False)):
            if index == len(self.highest_rates):
                self.highest_rates.append(None)
                self.idle_steps.append(0)
            known = (rate, _number(group.get("initial_lr")), self.highest_rates[index])
            highest = self.highest_rates[index] = max((each for each in known if each is not None), default=None)
            if rate is not None and highest is not None:
                self.idle_steps[index] += rate < _MIN_RATE * highest

    def _is_levelled(self, groups: Sequence[dict[str, Any]]) -> bool:
        made = {self.made_rates.get(id(group)) for group in groups} - {None, 0.0}
        return len(made) > 1 and len(set(self.learning_rates)) == 1

    def note_state(self, state: Any) -> None:
        """A step has ended: see whether there is something that the next one needs."""
        if not self.keeps_state and isinstance(state, dict):
            kept = next(iter(state.values()), None)
            values = kept.values() if isinstance(kept, dict) else ()
            self.keeps_state = any(_is_tensor(value) for value in values)
            # To read values waits for an accelerator, so it is done only where somebody asks.
            if any(each is not None and each[0] > each[1] for each in self.betas):
                self.keeps_squares = any(_is_average_of_squares(*each) for each in state.items())


class _Before(NamedTuple):
    """A parameter before compiled code runs."""

    tensor: torch.Tensor
    version: int | None
    gradient: tuple[int, int | None] | None
    """The ``id()`` of its gradient, and the version of that; None if it has none. It is not held."""

    @classmethod
    def of(cls, tensor: torch.Tensor) -> _Before:
        """As it is now."""
        gradient = tensor.grad
        return cls(tensor, version_of(tensor), None if gradient is None else (id(gradient), version_of(gradient)))

    def is_cleared(self) -> bool:
        """Whether its gradient was cleared since: it is gone, or was filled with zeros."""
        now = self.tensor.grad
        if self.gradient is None or now is None:
            return self.gradient is not None
        is_changed = id(now) == self.gradient[0] and version_of(now) != self.gradient[1]
        return is_changed and now.layout == torch.strided and not now.count_nonzero()


def _is_changed(before: list[_Before]) -> bool:
    """Whether a step was made since."""
    return any(version_of(each.tensor) != each.version for each in before)


_MIN_RATE = 1e-4
"""Of the highest learning rate: with less a step hardly does anything."""


def _two_numbers(value: Any) -> tuple[float, float] | None:
    if type(value) not in (tuple, list) or len(value) != 2:
        return None
    first, second = map(_number, value)
    return None if first is None or second is None else (first, second)


def _number(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) else None


class Optimizers:
    """Watches all optimizers of the program between `start` and `stop`."""

    def __init__(self, writer: CallWriter) -> None:
        self._writer = writer
        self.name_now: Callable[[FrameType], None] = lambda frame: None
        """Called when an optimizer is made: by then all models have names."""
        self.step_ended: Callable[[object], None] = lambda optimizer: None
        """Called after each step; what it raises ends the program."""
        self.rates_used: Callable[[], None] = lambda: None
        """Called after each step, to see which schedules changed what it used."""
        self.not_compared: set[int] = set()
        """Ids of what is known of parameters whose values cannot be read before a step."""
        self._hooks: list[Any] = []
        self._known: dict[int, KnownOptimizer] = {}
        self.all: list[KnownOptimizer] = []
        self.shared = SharedParameters()
        methods = _methods_that_read_parameters()
        self._methods = {id(code): meaning for code, meaning in methods.items()}
        self._folder = torch_folder() + "optim/"
        self._is_code_of_step: dict[int, bool] = {}
        self._codes: list[CodeType] = [*methods]
        """Keeps the code objects alive whose ids are keys."""
        self._current: tuple[tuple[int, int, int], Row] | None = None
        """The row of the method that reads parameters now, after the key of its call."""
        self._stepping: list[Row] = []
        self._before: list[tuple[KnownOptimizer, list[_Before]]] = []
        """While compiled code runs: the parameters of each optimizer as they were before."""
        self._cleared_first: set[int] = set()
        """The ``id()`` of those that compiled code has called ``zero_grad`` of, and had made no step with."""

    def start(self) -> None:
        """Install the hooks; nothing happens if they are installed already."""
        if self._hooks:
            return
        self._hooks = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
            module_call.register_module_parameter_registration_hook(self._on_parameter),
            module_call.register_module_module_registration_hook(self._on_module),
        ]

    def stop(self) -> None:
        """Remove them; safe to call twice."""
        remove_hooks(self._hooks)
        self._hooks = []

    def find(self, optimizer: Any) -> KnownOptimizer:
        """What is known about an optimizer, which is added if it is new.

        One that only passes on the groups of another, as ``AcceleratedOptimizer`` of accelerate, is that other one.
        """
        known = self._known.get(id(optimizer))
        if known is None or known.weak() is not optimizer:
            known = self._inside(optimizer)
            if known is None:
                known = self._known[id(optimizer)] = KnownOptimizer(weakref.ref(optimizer), type(optimizer).__name__)
                self.all.append(known)
        return known

    def _inside(self, optimizer: Any) -> KnownOptimizer | None:
        """The optimizer whose groups this one has. One that is being made has no groups yet: so the many that some
        programs make are not compared with each other."""
        groups = getattr(optimizer, "param_groups", None)
        if type(groups) is not list or not groups:
            return None
        return next((known for known in self.all if getattr(known.weak(), "param_groups", None) is groups), None)

    def note_groups(self, known: KnownOptimizer) -> None:
        """Read which tensors it holds now."""
        optimizer, tensors = known.weak(), self._writer.uses.tensors
        groups = getattr(optimizer, "param_groups", None)
        if type(groups) is not list:
            return
        known.groups = [
            [tensors.known(tensor) for tensor in group.get("params", ()) if _is_tensor(tensor)] for group in groups
        ]
        known.learning_rates = [_number(group.get("lr")) for group in groups]
        known.weight_decays = [_number(group.get("weight_decay")) for group in groups]
        known.decays_apart = any(group.get("decoupled_weight_decay") is True for group in groups)
        known.epsilons = [_number(group.get("eps")) for group in groups]
        known.betas = [_two_numbers(group.get("betas")) for group in groups]

    # -- what its methods read -----------------------------------------------------------------------------------

    def is_own_work(self, frame: FrameType) -> bool:
        """True for calls made by the methods that read all parameters: their rows represent them."""
        return id(frame.f_code) in self._methods

    def is_inside_step(self, frame: FrameType) -> bool:
        """True for calls made by the code of a step, which nothing else is read from."""
        if not self._stepping:
            return False
        # By identity: to hash a code object, Python looks through all of its instructions.
        key = id(frame.f_code)
        known = self._is_code_of_step.get(key)
        if known is None:
            self._codes.append(frame.f_code)
            is_of_optimizer = frame.f_code.co_filename.startswith(self._folder)
            known = self._is_code_of_step[key] = is_of_optimizer and key not in self._methods
        return known

    def note_getter(self, frame: FrameType, tensor: Any, attribute: str) -> None:
        """`frame` reads an attribute of a tensor, perhaps because gradients are cleared or an optimizer is made."""
        method = self._methods.get(id(frame.f_code))
        if method is None or method[1] != attribute:
            return
        variables = local_variables(frame)
        owner = variables.get("self")
        row = self._row_of_method(frame, owner, method[0])
        if not any(use.known is self._writer.uses.tensors.find(tensor) for use in row.inputs[-1:]):
            with measuring():
                row.inputs.append(self._writer.uses.use(tensor, str(len(row.inputs)), row, is_input=True))
        if row.kind == "add_param_group" and row.optimizer is not None:
            row.optimizer.note_group(variables.get("param_group"))

    def _row_of_method(self, frame: FrameType, owner: Any, kind: CallKind) -> Row:
        caller = frame.f_back
        key = id(frame), id(owner), caller.f_lasti if caller is not None else 0
        if self._current is not None and self._current[0] == key and self._is_newest(self._current[1]):
            return self._current[1]
        name = _full_name(type(owner)) + f".{frame.f_code.co_name}"
        row = self._writer.new_row(name, kind, frame)
        if issubclass(type(owner), torch.optim.Optimizer):
            row.optimizer = self.find(owner)
            if kind == "add_param_group":
                self.name_now(frame)
        self._current = key, row
        return row

    def _is_newest(self, row: Row) -> bool:
        return self._writer.rows.newest is row

    # -- compiled steps ------------------------------------------------------------------------------------------

    def before_compiled(self) -> None:
        """Compiled code is about to run, in which the hooks would be compiled too, and are not installed."""
        if self._writer.is_elsewhere() or self._stepping:
            return
        with self._writer.shield(), measuring(), DISABLE_TORCH_FUNCTION():
            alive = [known for known in self.all if known.weak() is not None]
            self._cleared_first.clear()
            self._before = [
                (known, [_Before.of(tensor) for _, tensor in _parameters_of(known.weak())]) for known in alive
            ]
            # It may be a step: what changed shows only afterwards.
            for each in (each for _, parameters in self._before for each in parameters):
                self._remember_values(self._writer.uses.tensors.known(each.tensor), each.tensor)

    def after_compiled(self, frame: FrameType) -> None:
        """Compiled code has run: an optimizer whose parameters it changed has made a step there.

        If it also cleared gradients, it did so after the step, unless it was seen before.
        """
        states, self._before = self._before, []
        for known, before in states:
            optimizer = known.weak()
            if optimizer is None:
                continue
            clears_first = id(optimizer) in self._cleared_first
            if clears_first:
                self._note_compiled_clear(known, optimizer, before, frame)
            if _is_changed(before):
                self._note_compiled_step(known, optimizer, before, frame)
                self.step_ended(optimizer)
            if not clears_first:
                self._note_compiled_clear(known, optimizer, before, frame)

    def clears_in_compiled(self, optimizer: Any) -> None:
        """While compiled code runs, the program calls ``zero_grad``."""
        if any(known.weak() is optimizer and not _is_changed(before) for known, before in self._before):
            self._cleared_first.add(id(optimizer))

    def _note_compiled_clear(
        self, known: KnownOptimizer, optimizer: Any, before: list[_Before], frame: FrameType
    ) -> None:
        writer = self._writer
        with writer.shield(), measuring(), DISABLE_TORCH_FUNCTION():
            cleared = [each.tensor for each in before if each.is_cleared()]
            if cleared:
                row = writer.new_row(f"{_full_name(type(optimizer))}.zero_grad", "zero_grad", frame)
                row.optimizer = known
                row.inputs = [_plain_use(writer, tensor, str(index), row) for index, tensor in enumerate(cleared)]

    def _note_compiled_step(
        self, known: KnownOptimizer, optimizer: Any, before: list[_Before], frame: FrameType
    ) -> None:
        writer = self._writer
        with writer.shield(), measuring():
            row = self._row_of_step(known, optimizer, frame)
            self.rates_used()
            for (position, tensor), earlier in zip(_parameters_of(optimizer), before, strict=False):
                use = _plain_use(writer, tensor, position, row)
                use.version = earlier.version
                row.inputs.append(use)
                if version_of(tensor) != earlier.version:
                    row.outputs.append(writer.uses.use(tensor, position, row, is_input=False))
                _compare_values(use.known, tensor)

    def _row_of_step(self, known: KnownOptimizer, optimizer: Any, frame: FrameType) -> Row:
        self.note_groups(known)
        known.note_rates()
        row = self._writer.new_row(f"{_full_name(type(optimizer))}.step", "step", frame)
        row.optimizer = known
        return row

    # -- hooks ---------------------------------------------------------------------------------------------------

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        writer = self._writer
        if writer.is_elsewhere():
            return
        with writer.shield(), measuring():
            known = self.find(optimizer)
            row = self._row_of_step(known, optimizer, calling_frame())
            parameters = _parameters_of(optimizer)
            for position, tensor in parameters:
                use = _plain_use(writer, tensor, position, row)
                row.inputs.append(use)
                self._remember_values(use.known, tensor)
                gradient = tensor.grad
                if gradient is not None:
                    writer.uses.note_gradient(gradient, tensor)
            if not self._stepping:  # else an optimizer that uses another one
                self.shared.note(
                    known, zip((use.known for use in row.inputs), (each for _, each in parameters), strict=True)
                )
            writer.open(row)
            self._stepping.append(row)

    def _remember_values(self, known: KnownTensor, tensor: torch.Tensor) -> None:
        """Before the first step on a tensor that requires grad: the checksum of its values."""
        if requires_grad(tensor) and known.before_steps is None:
            known.before_steps = checksum_of(tensor)
            if known.before_steps is None and tensor.numel():
                self.not_compared.add(id(known))

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self._writer.is_elsewhere():
            self._note_step(optimizer)
            self.step_ended(optimizer)

    def _note_step(self, optimizer: Any) -> None:
        writer = self._writer
        with writer.shield(), measuring():
            known = self.find(optimizer)
            row = next((row for row in reversed(self._stepping) if row.optimizer is known), None)
            if row is None:
                return
            del self._stepping[self._stepping.index(row) :]
            writer.close(row)
            known.note_state(getattr(optimizer, "state", None))
            self.rates_used()
            before = {id(use.known): use.version for use in row.inputs}
            for position, tensor in _parameters_of(optimizer):
                found = writer.uses.tensors.find(tensor)
                if found is None:
                    continue
                if version_of(tensor) != before.get(id(found)):
                    row.outputs.append(writer.uses.use(tensor, position, row, is_input=False))
                _compare_values(found, tensor)

    def _on_parameter(self, module: Any, name: str, parameter: Any) -> None:
        writer = self._writer
        if writer.is_elsewhere() or not _is_tensor(parameter):
            return
        with writer.shield():
            old = own_parameters(module).get(name)
            with DISABLE_TORCH_FUNCTION():
                storage = writer.uses.tensors.storage(parameter)
            source = storage.computed if storage is not None else None
            shared = storage.parameter if storage is not None else None
            if storage is not None and shared is not None and shared is writer.uses.tensors.find(parameter):
                source, shared = storage.source, None
            if source is None and shared is None and (old is None or old is parameter):
                return
            row = self._registration(module, "register_parameter", name)
            with measuring():
                row.inputs.append(writer.uses.use(parameter, "new", row, is_input=True))
                if old is not None and old is not parameter:
                    row.inputs.append(writer.uses.use(old, "old", row, is_input=True))
            if source is not None:
                row.inputs.append(RowUse(source, "source", None, None))
            if shared is not None:
                row.inputs.append(RowUse(shared, "shared", None, None))

    def _on_module(self, module: Any, name: str, child: Any) -> None:
        writer = self._writer
        if writer.is_elsewhere():
            return
        with writer.shield():
            old = own_modules(module).get(name)
            if old is None or old is child or child is None:
                return
            row = self._registration(module, "register_module", name)
            with DISABLE_TORCH_FUNCTION():
                for word, each in (("new", child), ("old", old)):
                    for path, inner in modules_inside(each, word):
                        for own_name, tensor in own_parameters(inner).items():
                            if tensor is not None:
                                row.inputs.append(_plain_use(writer, tensor, f"{path}.{own_name}", row))

    def _registration(self, module: Any, kind: CallKind, name: str) -> Row:
        row = self._writer.new_row(f"{_full_name(type(module))}.{kind}", kind, calling_frame())
        row.name = name
        return row


def _compare_values(known: KnownTensor, tensor: torch.Tensor) -> None:
    """After a step: whether any step has changed the values; and, of those that one did, whether all units are alike.

    As a rule the first step answers both for good.
    """
    if known.is_moved or known.before_steps is None:
        known.has_equal_units = known.has_equal_units and _has_equal_units(tensor)
        return
    now = checksum_of(tensor)
    known.is_moved = None if now is None else int(known.before_steps) != int(now)
    known.has_equal_units = known.is_moved is True and _has_equal_units(tensor)


def _has_equal_units(tensor: torch.Tensor) -> bool:
    """Whether all rows, or all columns, are the same but for rounding; those of most parameters are not, and the first
    two tell. Where they are not exactly the same, their gradients tell whether small steps have begun to part them."""
    values, gradient = tensor.detach(), tensor.grad
    if gradient is not None and gradient.is_sparse:
        gradient = None
    return values.dim() > 1 and any(
        values.shape[axis] > 1
        and _are_close(values.narrow(axis, 1, 1), values.narrow(axis, 0, 1))
        and _are_close(values, values.narrow(axis, 0, 1))
        and (
            torch.equal(values, values.narrow(axis, 0, 1).expand_as(values))
            or (gradient is not None and _are_close(gradient, gradient.narrow(axis, 0, 1), _ROUNDING_OF_GRADIENTS))
        )
        for axis in (0, 1)
    )


def _are_close(units: torch.Tensor, unit: torch.Tensor, rounding: float = 1e-5) -> bool:
    """Sums over a batch are rounded in another way in each row of a matrix."""
    return bool(((units - unit).abs() <= rounding * unit.abs().max()).all())


_ROUNDING_OF_GRADIENTS = 1e-2
"""They are differences of larger numbers."""


def _plain_use(writer: CallWriter, tensor: torch.Tensor, position: str, row: Row) -> RowUse:
    """The use of a tensor, without its values: those of parameters are known from earlier calls."""
    known = writer.uses.tensors.known(tensor)
    known.first_row = known.first_row or row
    known.status = requires_grad(tensor), known.status[1]
    return RowUse(known, position, version_of(tensor), None)


def _parameters_of(optimizer: Any) -> list[tuple[str, torch.Tensor]]:
    return [
        (f"groups[{number}][{index}]", tensor)
        for number, group in enumerate(optimizer.param_groups)
        for index, tensor in enumerate(group.get("params", ()))
        if _is_tensor(tensor)
    ]


def _is_average_of_squares(parameter: Any, kept: Any) -> bool:
    """Whether an optimizer keeps as many numbers as a parameter has, and none of them is negative."""
    if not _is_tensor(parameter) or not isinstance(kept, dict):
        return False
    alike = [
        value
        for value in kept.values()
        if _is_tensor(value) and value.shape == parameter.shape and value.is_floating_point() and value.numel() > 1
    ]
    return any(bool((value >= 0).all() and (value > 0).any()) for value in alike)


def _is_tensor(value: Any) -> bool:
    return issubclass(type(value), torch.Tensor)


def _methods_that_read_parameters() -> dict[CodeType, tuple[CallKind, str]]:
    """Code of these methods, with the kind of their row and the attribute that they read of each parameter."""
    optimizer, module = torch.optim.Optimizer, torch.nn.Module
    found: dict[CodeType, tuple[CallKind, str]] = {}
    for method, kind, attribute in (
        (optimizer.zero_grad, "zero_grad", "torch.Tensor.grad"),
        (module.zero_grad, "zero_grad", "torch.Tensor.grad"),
        (optimizer.add_param_group, "add_param_group", "torch.Tensor.is_leaf"),
    ):
        while hasattr(method, "__wrapped__"):
            method = method.__wrapped__
        found[method.__code__] = kind, attribute  # type: ignore[assignment]
    return found


def _full_name(kind: type) -> str:
    module = kind.__module__
    if module.startswith("torch.optim"):
        return f"torch.optim.{kind.__name__}"
    return f"torch.nn.{kind.__name__}" if module.startswith("torch.nn") else kind.__qualname__
