"""Copies the arguments of custom functions, so that their backward can be checked after the program has ended.

One small call of each function of the program is copied: by then the tensors themselves will have changed, and they
must not be kept alive. Modules are copied as well, and an argument that is a parameter of one is that of the copy.
Calls with arguments other than tensors, modules and plain values are not copied.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from gradviz.recording.calls.rows import Row
from gradviz.recording.fingerprints.elements import can_read_values
from gradviz.recording.run.file_kinds import is_library_file

MAX_ELEMENTS = 100_000
_MAX_FUNCTIONS = 64
_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device, torch.Size, torch.memory_format)


@dataclass(frozen=True)
class Sample:
    """One call of a custom function."""

    function: Any
    row: Row
    args: tuple[Any, ...]
    wants_gradient: tuple[bool, ...]
    """For each argument, whether it required grad."""


@dataclass
class CustomSamples:
    """At most one call of each function, and why some functions have none."""

    samples: dict[Any, Sample] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    _refused: set[Any] = field(default_factory=set)
    """Functions with a module that cannot be copied, which is tried once."""

    def take(self, function: Any, args: tuple[Any, ...], row: Row) -> None:
        """Copy the arguments if the function has no sample yet. Call it inside `measuring`."""
        callback = row.definition
        is_known = function in self.samples or function in self._refused
        if is_known or callback is None or is_library_file(callback.code.co_filename):
            return
        wants = tuple(isinstance(value, torch.Tensor) and value.requires_grad for value in args)
        if row.grad_mode != "enabled" or not any(wants) or len(self.samples) >= _MAX_FUNCTIONS:
            return
        name = row.function.removesuffix(".apply")
        reason = next((reason for value in args if (reason := _why_not(value))), None)
        if reason is None:
            try:
                copies = copied_together(args)
            except Exception as error:  # what a module of the program keeps may refuse
                self._refused.add(function)
                reason = f"it takes a module that cannot be copied: {type(error).__name__}"
            else:
                self.left_out.pop(name, None)
                self.samples[function] = Sample(function, row, copies, wants)
                return
        self.left_out.setdefault(name, reason)


def copied_together(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies of tensors and modules. What is a parameter of a module among them is so in the copies, too.

    >>> layer = torch.nn.Linear(2, 2)
    >>> weight, other = copied_together((layer.weight, layer))
    >>> weight is other.weight, weight is layer.weight
    (True, False)
    """
    memo: dict[int, Any] = {}
    for module in modules_in(args):
        copy.deepcopy(module, memo)
    return tuple(_copy(value, memo) for value in args)


def modules_in(args: Any) -> Iterator[torch.nn.Module]:
    """The modules among arguments, also in lists and tuples."""
    for value in args:
        if isinstance(value, torch.nn.Module):
            yield value
        elif type(value) in (tuple, list):
            yield from modules_in(value)


def _why_not(value: Any) -> str | None:
    if isinstance(value, torch.nn.Module):
        elements = sum(each.numel() for each in (*value.parameters(), *value.buffers()))
        return f"it takes a module of more than {MAX_ELEMENTS:,} elements" if elements > MAX_ELEMENTS else None
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        is_complex = value.is_complex() and value.requires_grad
        if not can_read_values(value) or value.layout is not torch.strided or is_complex:
            return "it takes tensors that cannot be copied as plain numbers"
        return f"it takes more than {MAX_ELEMENTS:,} elements" if value.numel() > MAX_ELEMENTS else None
    if type(value) in (tuple, list):
        return next((reason for each in value if (reason := _why_not(each))), None)
    return None if isinstance(value, _PLAIN) else f"it takes an object of {type(value).__name__}"


def _copy(value: Any, memo: dict[int, Any]) -> Any:
    if id(value) in memo:
        return memo[id(value)]
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    return type(value)(_copy(each, memo) for each in value) if type(value) in (tuple, list) else value
