"""Logs what no function mode sees: custom functions, compiled code, backward calls, ``Variable()`` and new modules."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import torch

from gradviz.graph.call_log import words_of_error
from gradviz.graph.modules_and_schedules import MadeLoader
from gradviz.recording.backward.backward_watch import BackwardRequest
from gradviz.recording.backward.gradients.gradient_watch import measuring
from gradviz.recording.backward.redrawn_numbers import RedrawnNumbers
from gradviz.recording.calls.call_arguments import scalars_with_positions, tensors_inside
from gradviz.recording.calls.custom_function_samples import CustomSamples
from gradviz.recording.calls.row_writer import CallWriter
from gradviz.recording.calls.rows import Row
from gradviz.recording.forward.user_functions import backward_of, callback_of
from gradviz.recording.frame_variables import local_variables
from gradviz.recording.run.line_attribution import calling_frame
from gradviz.recording.torch_access.capabilities import works
from gradviz.recording.torch_access.modules import backward_hooks, backward_pre_hooks
from gradviz.recording.torch_access.nodes import peek_sequence_nr
from gradviz.recording.torch_access.patches import Replacement


class CallEvents:
    """Gets the calls that no function mode sees from the recorder."""

    def __init__(self, writer: CallWriter) -> None:
        self._writer = writer
        self.samples = CustomSamples()
        self.redrawn = RedrawnNumbers()
        self._known_hooks: set[int] = set()
        """Hooks of modules, by torch's number for each."""
        self.backward_error: str | None = None
        """What the last backward call raised."""

    def begin_custom_function(self, frame: FrameType, function: Any, number: int) -> Row | None:
        """A custom function was called from `frame`; its node has the sequence number `number`."""
        writer = self._writer
        if writer.is_elsewhere():
            return None
        with writer.shield():
            writer.close_frame(id(frame))
            name = getattr(function, "__qualname__", "Function").rpartition("<locals>.")[2]
            row = writer.new_row(f"{name}.apply", "custom", frame)
            row.definition = backward_of(function)
            row.sequence_nr, row.node_count = number, 1
            row.called = function
            return row
        return None

    def enter_custom_function(
        self, row: Row, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType, at: int | None
    ) -> None:
        """Its ``forward`` is about to run: as long as `frame` runs, or is at the instruction `at`."""
        writer = self._writer
        with writer.shield():
            self._note_arguments(row, {"args": args, "kwargs": kwargs})
            with measuring():
                self.samples.take(row.called, args, row)
            row.called = None
            self.redrawn.begin_forward(row)
            writer.uses.await_results(row)
            writer.open(row, frame, at)

    def _note_arguments(self, row: Row, variables: dict[str, Any]) -> None:
        args, kwargs = variables.get("args", ()), variables.get("kwargs", {})
        with measuring():
            row.inputs = self._writer.uses.of_arguments(row, args, kwargs)
        row.scalars = scalars_with_positions(args, kwargs)

    def note_module_hooks(self, module: torch.nn.Module, frame: FrameType) -> None:
        """A module with hooks for backward is being called: each hook gets one row."""
        writer = self._writer
        if writer.is_elsewhere():
            return
        with writer.shield():
            for number, hook in (*backward_hooks(module).items(), *backward_pre_hooks(module).items()):
                if number not in self._known_hooks:
                    self._known_hooks.add(number)
                    row = writer.new_row("torch.nn.Module.register_full_backward_hook", "operation", frame)
                    row.definition = callback_of(hook)

    def begin_compiled(self, frame: FrameType | None, function: str) -> Row | None:
        """Compiled code is about to run, called from torch's wrapper in `frame`."""
        writer = self._writer
        if writer.is_elsewhere():
            return None
        with writer.shield():
            row = writer.new_row(function, "compiled", frame)
            self._note_arguments(row, local_variables(frame) if frame is not None else {})
            row.sequence_nr = peek_sequence_nr()
            return row
        return None

    def end_compiled(self, row: Row) -> None:
        """The compiled code has run."""
        with self._writer.shield():
            made = peek_sequence_nr() - (row.sequence_nr or 0)
            if made > 0:
                row.node_count = made
                self._writer.uses.await_results(row)
            else:
                row.sequence_nr = None

    def run_backward(self, request: BackwardRequest, run: Callable[[], Any]) -> Any:
        """Run a call of ``backward`` or ``grad`` and give it a row; returns or raises whatever the call does."""
        row = None if self._writer.is_elsewhere() else self._begin_backward(request)
        if row is None:
            return run()
        try:
            result = run()
        except BaseException as error:
            self.backward_error = row.raised = first_line(error)
            raise
        else:
            self._take_results(row, result)
        finally:
            self._writer.close(row)
        return result

    def _begin_backward(self, request: BackwardRequest) -> Row | None:
        writer = self._writer
        writer.backward_calls += 1
        with writer.shield():
            row = writer.new_row(f"torch.autograd.{request.function}", "backward", request.frame)
            row.name = str(writer.backward_calls)
            row.misses_calls, writer.misses_calls = writer.misses_calls, False
            row.scalars = {"retain_graph": request.retain_graph, "create_graph": request.create_graph}
            given = (("root", request.roots), ("gradient", request.gradients), ("input", request.inputs))
            with measuring():
                for what, tensors in given:
                    for position, tensor in tensors_inside(tensors, what):
                        row.inputs.append(writer.uses.use(tensor, position, row, is_input=True))
            self.redrawn.begin_backward()
            writer.open(row)
            return row
        return None

    def note_inner_backward(self, frame: FrameType) -> None:
        """A node that the engine runs calls backward, on any thread."""
        with self._writer.shield(), measuring():
            self.redrawn.note_inner(frame)

    def _take_results(self, row: Row, result: Any) -> None:
        with self._writer.shield(), measuring():
            for position, tensor in tensors_inside(result, "return"):
                row.outputs.append(self._writer.uses.given(tensor, position, row))


def first_line(error: BaseException) -> str:
    """Type and first line of the message of an exception."""
    return words_of_error(type(error).__name__, str(error))


class VariableConstructor:
    """Logs ``torch.autograd.Variable(t)`` between `start` and `stop`: it makes a new tensor with the values of another.

    It has not been needed since torch 0.4, but many programs still use it.
    """

    def __init__(self, writer: CallWriter) -> None:
        self._writer = writer
        self._replacement = Replacement("torch.autograd.variable.VariableMeta.__call__")

    def start(self) -> None:
        """Give the metaclass of `Variable` a ``__call__`` that logs."""
        if "__call__" not in vars(type(torch.autograd.Variable)):  # otherwise another tool has replaced it
            self._replacement.put(self._logging)

    def stop(self) -> None:
        """Remove it; safe to call twice."""
        self._replacement.take_back()

    def _logging(self, _: Any) -> Any:
        make = type.__call__

        def call(kind: Any, *args: Any, **kwargs: Any) -> Any:
            row = self._begin(args, kwargs)
            made = make(kind, *args, **kwargs)
            self._end(row, made)
            return made

        return call

    def _begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Row | None:
        writer = self._writer
        if writer.is_elsewhere():
            return None
        with writer.shield():
            row = writer.locate(Row("torch.autograd.Variable"), calling_frame(2))
            with measuring():
                row.inputs = writer.uses.of_arguments(row, args, kwargs)
            return row
        return None

    def _end(self, row: Row | None, made: Any) -> None:
        if row is not None:
            with self._writer.shield():
                with measuring():
                    row.outputs.append(self._writer.uses.given(made, "return", row))
                self._writer.add(row)


_MODULE_IS_MADE = "python.nn_module"
"""The argument with which ``Module.__init__`` calls torch's log function. ``Module.__init__`` itself is not replaced:
that would show in tracebacks and to code that inspects it."""
_LOADER_IS_MADE = "python.data_loader"
"""The same for ``DataLoader.__init__``."""
_MAX_LOADERS = 1_000


def _weights_and_samples(sampler: Any, data: Any) -> tuple[int | None, int | None]:
    """How many weights a sampler has that draws with weights, and how many samples there are; also for a part of a
    data set, whose length torch itself knows."""
    if sampler is None and type(data) is torch.utils.data.Subset:
        return None, len(data.indices)
    if not isinstance(sampler, torch.utils.data.WeightedRandomSampler):
        return None, None
    try:
        return len(sampler.weights), len(data)
    except Exception:  # What the program's own classes raise is for the program to see.
        return None, None


class ModuleMakers:
    """Adds a row with the line that made each ``torch.nn.Module``, between `start` and `stop`.

    It replaces a function that torch calls first in ``Module.__init__``, and in ``DataLoader.__init__``.
    """

    def __init__(self, writer: CallWriter) -> None:
        self._writer = writer
        self._replacement = Replacement("torch._C._log_api_usage_once")
        self._rows: dict[int, tuple[weakref.ref[Any], Row]] = {}
        self.loaders: list[tuple[MadeLoader, int]] = []
        """The data loaders that were made, each with its stack."""
        self.loaders_with_workers = 0
        """How many loaders were made whose data sets run in processes of their own."""

    def start(self) -> None:
        """Replace that function."""
        if works("making of modules"):
            self._replacement.put(self._logging)

    def stop(self) -> None:
        """Put it back; safe to call twice."""
        self._replacement.take_back()

    def _logging(self, original: Callable[[str], Any]) -> Callable[[str], Any]:
        def note(event: str) -> Any:
            if event == _MODULE_IS_MADE:
                self._note(calling_frame())
            elif event == _LOADER_IS_MADE:
                self._note_loader(calling_frame())
            return original(event)

        return note

    def _note_loader(self, frame: FrameType) -> None:
        given = local_variables(frame)
        workers = given.get("num_workers")
        self.loaders_with_workers += type(workers) is int and workers > 0
        writer = self._writer
        if writer.is_elsewhere() or len(self.loaders) >= _MAX_LOADERS:
            return
        with writer.shield():
            is_in_order = not given.get("shuffle") and given.get("sampler") is given.get("batch_sampler") is None
            is_in_order &= not isinstance(given.get("dataset"), torch.utils.data.IterableDataset)
            row = writer.locate(Row("torch.utils.data.DataLoader"), frame)
            weights, samples = _weights_and_samples(given.get("sampler"), given.get("dataset"))
            self.loaders.append((MadeLoader(None, is_in_order, weights, samples), row.stack))

    def row_of(self, module: Any) -> Row | None:
        """The row of a module, if it was made between `start` and `stop`."""
        found = self._rows.get(id(module))
        return found[1] if found is not None and found[0]() is module else None

    def _note(self, frame: FrameType) -> None:
        writer = self._writer
        if writer.is_elsewhere():
            return
        with writer.shield():
            module = local_variables(frame).get("self")
            if module is not None:
                kind = type(module)
                row = writer.new_row(f"{kind.__module__}.{kind.__qualname__}", "make_module", frame)
                key, rows = id(module), self._rows
                # When a module dies, another may get its id. It may die after the recording, when no line of gradviz is
                # to run: this calls `dict.pop` with the key and, as the default, the reference.
                rows[key] = weakref.ref(module, partial(rows.pop, key)), row
