"""Rows of the call log for what no function mode sees: custom functions, compiled code, backward calls."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

from gradviz.recording.backward.backward_watch import BackwardRequest
from gradviz.recording.backward.gradients.hooks import measuring
from gradviz.recording.calls.call_values import scalars_with_places, tensors_inside
from gradviz.recording.calls.custom_samples import CustomSamples
from gradviz.recording.calls.row_writer import CallWriter
from gradviz.recording.calls.rows import Row
from gradviz.recording.forward.user_functions import backward_of, callback_of
from gradviz.recording.frame_variables import local_variables
from gradviz.recording.torch_access.modules import backward_hooks, backward_pre_hooks
from gradviz.recording.torch_access.nodes import peek_sequence_nr


class CallEvents:
    """Told by the watches of the recorder."""

    def __init__(self, writer: CallWriter) -> None:
        self._writer = writer
        self.samples = CustomSamples()
        self._known_hooks: set[int] = set()
        """Hooks of modules, by the number that torch gives each."""
        self.backward_calls = 0
        self.backward_error: str | None = None
        """What the last backward call raised."""

    def begin_custom_function(self, frame: FrameType, function: Any, number: int) -> Row | None:
        """A custom function was called from `frame`; its node has this number."""
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
        """It was given these, and runs: as long as `frame` does, or is at that instruction."""
        writer = self._writer
        with writer.shield():
            self._note_arguments(row, {"args": args, "kwargs": kwargs})
            with measuring():
                self.samples.take(row.called, args, row)
            row.called = None
            writer.uses.await_results(row)
            writer.open(row, frame, at)

    def _note_arguments(self, row: Row, variables: dict[str, Any]) -> None:
        args, kwargs = variables.get("args", ()), variables.get("kwargs", {})
        with measuring():
            row.inputs = self._writer.uses.of_arguments(row, args, kwargs)
        row.scalars = scalars_with_places(args, kwargs)

    def note_module_hooks(self, module: torch.nn.Module, frame: FrameType) -> None:
        """A module is called that has hooks for backward: each of them gets a row, once."""
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
        """It has run."""
        with self._writer.shield():
            made = peek_sequence_nr() - (row.sequence_nr or 0)
            if made > 0:
                row.node_count = made
                self._writer.uses.await_results(row)
            else:
                row.sequence_nr = None

    def run_backward(self, request: BackwardRequest, run: Callable[[], Any]) -> Any:
        """Run a call of ``backward`` or ``grad`` with a row of its own: gives what it gives, raises what it raises."""
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
        self.backward_calls += 1
        with writer.shield():
            row = writer.new_row(f"torch.autograd.{request.function}", "backward", request.frame)
            row.name = str(self.backward_calls)
            row.scalars = {"retain_graph": request.retain_graph, "create_graph": request.create_graph}
            given = (("root", request.roots), ("gradient", request.gradients), ("input", request.inputs))
            with measuring():
                for what, tensors in given:
                    for place, tensor in tensors_inside(tensors, what):
                        row.inputs.append(writer.uses.use(tensor, place, row, is_input=True))
            writer.open(row)
            return row
        return None

    def _take_results(self, row: Row, result: Any) -> None:
        with self._writer.shield(), measuring():
            for place, tensor in tensors_inside(result, "return"):
                row.outputs.append(self._writer.uses.given(tensor, place, row))


def first_line(error: BaseException) -> str:
    """Type and first line of what was raised."""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:300]}".removesuffix(": ")
