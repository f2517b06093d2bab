"""Logs every torch call of the recorded thread, with the tensors that it took and returned.

Problems solved here and in the modules used:

* What a call changed is known only by comparing before and after, so versions, flags and values are read before it
  runs.
* Some calls are visible only in part: see `tensor_uses` for results that no mode sees, and `optimizers`.
* Nothing is kept alive (`known_tensors`). No ``grad_fn`` is read if that would make a Python wrapper of a C++ node,
  because deep graphs could then not be freed. Reading changes no mode, graph or random number of the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

import torch

from gradviz.graph.call_log import DerivativeCheck
from gradviz.recording.backward.gradients.gradient_watch import measuring
from gradviz.recording.calls.call_arguments import (
    numbers_in,
    scalar_of,
    scalars_with_positions,
    tensors_inside,
    tensors_with_positions,
)
from gradviz.recording.calls.calls_unseen_by_mode import CallEvents, ModuleMakers, VariableConstructor, first_line
from gradviz.recording.calls.data_loading import DataLoading
from gradviz.recording.calls.derivative_check import NotComparable, check_derivatives
from gradviz.recording.calls.kept_alive import LivingTensors
from gradviz.recording.calls.known_tensors import requires_grad
from gradviz.recording.calls.logged_functions import FunctionKind, FunctionTable
from gradviz.recording.calls.module_oddities import Oddities
from gradviz.recording.calls.optimizers import Optimizers
from gradviz.recording.calls.repeated_blocks import RepeatedBlocks
from gradviz.recording.calls.row_writer import CallWriter, Locate
from gradviz.recording.calls.rows import Row, RowUse
from gradviz.recording.calls.schedules import Schedules
from gradviz.recording.calls.shared_parameters import SharedParameters
from gradviz.recording.calls.state_loads import StateLoads
from gradviz.recording.calls.tensor_uses import TAKE_IDS, PaddingReader
from gradviz.recording.fingerprints.checksum import checksum_of
from gradviz.recording.fingerprints.elements import has_readable_elements
from gradviz.recording.fingerprints.fingerprint_meter import FingerprintMeter
from gradviz.recording.fingerprints.random_draws import GeneratorStates, draw_between, states_before
from gradviz.recording.forward.grad_mode_watch import Location
from gradviz.recording.forward.replaced_parameters import ReplacedParameters
from gradviz.recording.forward.user_functions import callback_of
from gradviz.recording.run.file_kinds import is_library_file
from gradviz.recording.run.line_attribution import function_name
from gradviz.recording.run.run_limit import RunLimit
from gradviz.recording.torch_access.checkpointing import caller_of_forgetful_checkpoint
from gradviz.recording.torch_access.tensor_facts import FactsTable
from gradviz.recording.torch_access.tensors import version_of


class Pending:
    """A call that is running."""

    __slots__ = ("args", "frame", "function", "generators", "kwargs", "row", "taken")

    def __init__(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType, row: Row
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.frame = frame
        self.row = row
        self.taken: list[tuple[RowUse, torch.Tensor]] | None = None
        self.generators: GeneratorStates | None = None


class PendingRead(NamedTuple):
    """An attribute that is being read. Most are no tensors, and get no row."""

    function: Any
    args: tuple[Any, ...]
    frame: FrameType
    name: str
    """As the user would write it."""


class CallRecorder:
    """Gets every call of a torch function from `function_mode`; `events` and `optimizers` get the rest."""

    def __init__(self, facts: FactsTable, where: Locate, fingerprints: FingerprintMeter | None = None) -> None:
        self.writer = CallWriter(facts, where, fingerprints)
        self.events = CallEvents(self.writer)
        self.optimizers = Optimizers(self.writer)
        self.modules = ModuleMakers(self.writer)
        self.variables = VariableConstructor(self.writer)
        self.living = LivingTensors(self.writer)
        self.loads = StateLoads(self.writer, self.optimizers.find)
        self.replaced = ReplacedParameters(self.writer)
        self.schedules = Schedules(self.writer, self.optimizers.find)
        self.optimizers.rates_used = self.schedules.at_step
        self.oddities = Oddities()
        self.blocks = RepeatedBlocks(self.writer)
        self.loading: DataLoading | None = None
        """If not every batch of a loader is to be logged."""
        self._functions = FunctionTable()
        self._padding = PaddingReader()
        self.derivatives: tuple[DerivativeCheck, ...] = ()
        """Results of `check_custom_functions`."""
        self._limit: RunLimit | None = None

    def check_custom_functions(self) -> dict[str, str]:
        """Compare the backward of custom functions with finite differences; returns reasons for those skipped."""
        checks: list[DerivativeCheck] = []
        reasons = dict(self.events.samples.left_out)
        for sample in self.events.samples.samples.values():
            try:
                checks += check_derivatives(sample)
            except NotComparable as defect:
                reasons[sample.row.function.removesuffix(".apply")] = str(defect)
        self.events.samples.samples.clear()
        self.derivatives = tuple(checks)
        return reasons

    def other_stacks(self) -> Iterator[int]:
        """The stacks of what is noted without a row."""
        yield from (stack for _, stack in self.loads.all)
        yield from (stack for _, stack in self.replaced.unknown.values())
        yield from self.loads.own_states.values()
        yield from (stack for _, stack in self.modules.loaders)
        yield from (schedule.stack for schedule in self.schedules.all)
        yield from (stack for schedule in self.schedules.all for stack, _ in schedule.readings)
        yield from (repeated.stack for repeated in self.oddities.repeated.values())

    def release_all(self) -> None:
        """The log has been built: forget all tensors and copies."""
        self.writer.uses.tensors.release_all()
        self.optimizers.shared = SharedParameters()
        self.events.samples.samples.clear()

    def watch_limit(self, limit: RunLimit) -> None:
        """Report steps to `limit`, and interrupt a step that takes too long."""
        self._limit = limit
        self.optimizers.step_ended = limit.after_step

    def begin(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType
    ) -> Pending | PendingRead | None:
        """A torch function, called from `frame`, is about to run; None if its calls are not logged."""
        if self.optimizers.is_inside_step(frame):
            return None  # the row of the step represents them
        if self._limit is not None and self._limit.is_overdue() and self._may_break_off():
            self._limit.break_off()
        with self.writer.shield():
            return self._begin(function, args, kwargs, frame)
        return None

    def _may_break_off(self) -> bool:
        """False inside the engine, where an interrupt would look like a failed backward."""
        return not (self.writer.is_elsewhere() or self.writer.is_inside("backward", "step"))

    def _begin(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType
    ) -> Pending | PendingRead | None:
        kind = self._functions.kind(function)
        if kind is FunctionKind.NEVER_LOGGED:
            return None
        if kind is FunctionKind.GRAD_SWITCH:
            self.writer.grad_mode.note(args, frame)
            if self.writer.uses.fingerprints is None:
                self.blocks.switch(self.writer.grad_mode.newest, on=not args or bool(args[0]))
            return None
        if self.blocks.is_left_out and not self._functions.may_write(function, kind, kwargs):
            return None
        name = self._functions.name(function)
        if kind is FunctionKind.GETTER:
            self.optimizers.note_getter(frame, args[0], name)
            return PendingRead(function, args, frame, name)
        if self.optimizers.is_own_work(frame):
            return None
        return self._with_its_inputs(Pending(function, args, kwargs, frame, Row(name)))

    def _with_its_inputs(self, pending: Pending) -> Pending:
        row, uses = self.writer.locate(pending.row, pending.frame), self.writer.uses
        if self._functions.may_draw(pending.function):
            row.checkpoint_location = _forgetful_checkpoint(pending.frame)
        self.events.redrawn.begin_call(row)
        with measuring():
            # What is copied is the first argument: the second remembers what the same deepcopy() has copied before.
            args = pending.args[:1] if row.function == _DEEPCOPY else pending.args
            tensors = tensors_with_positions(args, pending.kwargs)
            pending.taken = [(uses.use(tensor, position, row, is_input=True), tensor) for position, tensor in tensors]
            if row.function in _TAKE_CLASSES or (row.function == _INDEX and len(pending.taken) > _TABLE_AND_INDEX):
                row.checksums = dict(_checksums(pending.taken))
            if row.function in TAKE_IDS:
                row.padding = self._padding.read(row, pending.taken)
        row.inputs = [use for use, _ in pending.taken]
        if uses.fingerprints is not None:
            pending.generators = states_before(pending.kwargs)
        return pending

    def end(self, begun: Pending | PendingRead, result: Any, before: int, after: int) -> Row | None:
        """The call returned, after making the nodes ``before`` to ``after - 1``. Returns its row, if it gets one."""
        with self.writer.shield():
            pending = self._logged_read(begun, result) if isinstance(begun, PendingRead) else begun
            if pending is None:
                return None
            row = pending.row
            if after != before:
                row.sequence_nr, row.node_count = before, after - before
            if pending.generators is not None:
                row.draw = draw_between(pending.generators, pending.kwargs)
            self.events.redrawn.end_call(row)
            with measuring():
                self._take_outputs(pending, result)
            is_exit = self._functions.is_exit(pending.function)
            if is_exit:
                self._note_values_leaving(pending, result)
            if row.outputs or is_exit or self._functions.kind(pending.function) is FunctionKind.ALWAYS_LOGGED:
                row.scalars = scalars_with_positions(pending.args, pending.kwargs)
                if row.function in _TAKE_HOOKS and len(pending.args) > 1:
                    row.definition = callback_of(pending.args[1])
                self.writer.add(row)
                return row
        return None

    def _logged_read(self, read: PendingRead, result: Any) -> Pending | None:
        """What was read, if it is a tensor that was computed from another."""
        if read.name == _GRADIENT and result is None:
            self._note_missing_gradient(read)
        if not issubclass(type(result), torch.Tensor):
            return None
        if read.name == _GRADIENT:
            with measuring():
                self.writer.uses.note_gradient(result, read.args[0])
            return None
        return self._begun(read)

    def _begun(self, read: PendingRead) -> Pending:
        return self._with_its_inputs(Pending(read.function, read.args, {}, read.frame, Row(read.name)))

    def _note_missing_gradient(self, read: PendingRead, error: str | None = None) -> None:
        """The program's own code read a ``.grad`` that is None."""
        if not is_library_file(read.frame.f_code.co_filename):
            row = self._begun(read).row
            row.raised = error
            self.writer.add(row)

    def fail(self, pending: Pending | PendingRead, error: BaseException) -> None:
        """The call raised."""
        with self.writer.shield():
            if isinstance(pending, PendingRead):
                # torch warns if ``.grad`` of a non-leaf is read, and warnings may be errors.
                if pending.name == _GRADIENT:
                    self._note_missing_gradient(pending, first_line(error))
                return
            row = pending.row
            row.raised = first_line(error)
            # A backward call that raised has a row of its own.
            if not (row.function == "torch.Tensor.backward" and row.raised == self.events.backward_error):
                row.scalars = scalars_with_positions(pending.args, pending.kwargs)
                self.writer.add(row)

    def _take_outputs(self, pending: Pending, result: Any) -> None:
        row, uses, seen = pending.row, self.writer.uses, set()
        row.reads_values = not self._functions.leaves_uninitialized(pending.function)
        for position, tensor in tensors_inside(result, "return"):
            row.outputs.append(uses.given(tensor, position, row))
            seen.add(id(tensor))
        for use, tensor in pending.taken or ():
            is_changed = version_of(tensor) != use.version or requires_grad(tensor) != use.requires_grad
            if is_changed and id(tensor) not in seen:
                seen.add(id(tensor))
                row.outputs.append(uses.given(tensor, use.position, row))

    def _note_values_leaving(self, pending: Pending, result: Any) -> None:
        pending.row.result = scalar_of(result)
        if type(result) is list:
            pending.row.results = numbers_in(result)
        elif pending.row.result is None and pending.row.inputs:
            self.writer.uses.arrays.note(result, pending.row.inputs[0].known)


def _checksums(taken: list[tuple[RowUse, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
    for use, tensor in taken:
        is_integer = not tensor.is_floating_point() and not tensor.is_complex() and tensor.dtype is not torch.bool
        if is_integer and 1 < tensor.numel() <= _MAX_INTEGERS and has_readable_elements(tensor):
            checksum = checksum_of(tensor.long())
            if checksum is not None:
                yield use.position, checksum


_TAKE_CLASSES = frozenset(
    (
        *(f"torch.nn.functional.{name}" for name in ("embedding", "one_hot", "cross_entropy", "nll_loss")),
        *(f"torch.{owner}{name}" for name in ("gather", "take_along_dim") for owner in ("", "Tensor.")),
    )
)
_INDEX = "torch.Tensor.__getitem__"
_TABLE_AND_INDEX = 2
"""With more tensors, an index chooses one column of each row: ``table[rows, columns]``."""
_GRADIENT = "torch.Tensor.grad"
_DEEPCOPY = "torch.Tensor.__deepcopy__"
_MAX_INTEGERS = 1 << 20


def _forgetful_checkpoint(frame: FrameType) -> Location | None:
    """The line that called a checkpoint around `frame` which draws other random numbers in backward."""
    caller = caller_of_forgetful_checkpoint(frame)
    if caller is None:
        return None
    return Location(caller.f_code.co_filename, caller.f_lineno, function_name(caller.f_code))


_TAKE_HOOKS = frozenset({"torch.Tensor.register_hook", "torch.Tensor.register_post_accumulate_grad_hook"})
