"""Explains backward calls that torch refuses before its engine starts: no root, or a gradient that does not fit it.

torch's message numbers the tensors instead of naming them; the traceback still holds them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch

from gradviz.recording.forward.tensor_names import NameTable
from gradviz.recording.frame_variables import local_variables
from gradviz.recording.run.file_kinds import is_torch_file
from gradviz.recording.torch_access.engine import is_refusal
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION

_ARGUMENTS = {
    torch.autograd.backward.__code__: ("backward", "tensors", "grad_tensors_"),
    torch.autograd.grad.__code__: ("grad", "outputs", "grad_outputs_"),
}
"""By the code of torch's functions: their name, and the variables that hold their arguments, as tuples."""


def root_in_message(message: str, tensors: Sequence[torch.Tensor]) -> int:
    """The index of the tensor that torch's message is about."""
    match = re.search(r"grad_output\[(\d+)\]", message)
    if match is not None and int(match[1]) < len(tensors):
        return int(match[1])
    return next((number for number, tensor in enumerate(tensors) if tensor.numel() != 1), 0)


@dataclass(frozen=True)
class RefusedBackward:
    """The arguments of the call, and torch's message."""

    function: str
    tensors: tuple[torch.Tensor, ...]
    gradients: tuple[Any, ...]
    message: str

    def words(self, names: NameTable) -> str:
        """Which root it was about, by name, and what did not fit."""
        with DISABLE_TORCH_FUNCTION():
            index = root_in_message(self.message, self.tensors)
            tensor = self.tensors[index]
            name = names.name_of(tensor) or (f"root {index + 1}" if len(self.tensors) > 1 else "its root")
            gradient = self.gradients[index] if index < len(self.gradients) else None
            given = (
                f"a gradient of shape {list(gradient.shape)}" if isinstance(gradient, torch.Tensor) else "no gradient"
            )
            return f"{self.function}() did not begin: {name} has shape {list(tensor.shape)}, and was given {given}"


def refused_backward(error: BaseException) -> RefusedBackward | None:
    """The call that ended in `error`, if torch refused its roots or gradients."""
    found = None
    was_refused = False
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        was_refused = is_refusal(trace.tb_frame.f_code.co_name) and is_torch_file(trace.tb_frame.f_code.co_filename)
        names = _ARGUMENTS.get(trace.tb_frame.f_code)
        if names is not None:
            function, outputs, gradients = names
            variables = local_variables(trace.tb_frame)
            tensors = _tensors(variables.get(outputs))
            given = variables.get(gradients) or variables.get(gradients.rstrip("_"))
            if tensors:
                found = RefusedBackward(function, tensors, _as_tuple(given), str(error))
        trace = trace.tb_next
    return found if was_refused else None


def _tensors(value: Any) -> tuple[torch.Tensor, ...]:
    return tuple(each for each in _as_tuple(value) if isinstance(each, torch.Tensor))


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)
