"""Logs ``torch.autograd.Variable(t)``, which no function mode sees: it makes a new tensor of the values of another.

Nobody needs it since torch 0.4, but programs written before, and after them, are full of it.
"""

from __future__ import annotations

from typing import Any

import torch

from gradviz.recording.backward.gradients.hooks import measuring
from gradviz.recording.calls.row_writer import CallWriter
from gradviz.recording.calls.rows import Row
from gradviz.recording.run.stacks import calling_frame
from gradviz.recording.torch_access.patches import Replacement


class VariableConstructor:
    """Stands between the class and its call, between `start` and `stop`."""

    def __init__(self, writer: CallWriter) -> None:
        self._writer = writer
        self._replacement = Replacement("torch.autograd.variable.VariableMeta.__call__")

    def start(self) -> None:
        """Give the class of `Variable` a call of its own."""
        if "__call__" not in vars(type(torch.autograd.Variable)):  # otherwise it is somebody's own affair
            self._replacement.put(self._telling)

    def stop(self) -> None:
        """Take it away; safe to call twice."""
        self._replacement.take_back()

    def _telling(self, _: Any) -> Any:
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
            row = writer.place(Row("torch.autograd.Variable"), calling_frame(2))
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
