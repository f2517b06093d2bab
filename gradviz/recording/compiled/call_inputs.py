"""Notes what each call of compiled code gets: tensors without gradient, which the picture shows beside the operations
that take them, and sizes, where code was compiled for more than one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from functools import wraps
from types import FrameType
from typing import Any

import torch

from gradviz.recording.forward.forward_log import CompiledCall
from gradviz.recording.forward_watch import ForwardWatch
from gradviz.recording.run.file_kinds import is_torch_file
from gradviz.recording.run.recording_failures import shielded
from gradviz.recording.torch_access.dynamo.dynamo_graphs import (
    Sizes,
    TensorInput,
    TracedGraph,
    function_name,
)
from gradviz.recording.torch_access.modes import is_checkpointing
from gradviz.recording.torch_access.nodes import peek_sequence_nr
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION, requires_grad_of


class CallInputs:
    """Notes it between `start` and `stop`, for calls that make autograd nodes."""

    def __init__(self, watch: ForwardWatch) -> None:
        self.defects = watch.defects
        self._watch = watch
        self._is_on = False

    def start(self) -> None:
        """Note calls from now on."""
        self._is_on = True

    def stop(self) -> None:
        """Note nothing more."""
        self._is_on = False

    def around(self, traced: TracedGraph, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """What is to be called in place of `compiled`."""

        @wraps(compiled)
        def compiled_and_noted(*args: Any, **options: Any) -> Any:
            before = peek_sequence_nr()
            result = compiled(*args, **options)
            after = peek_sequence_nr()
            if self._is_on and after != before and len(args) == len(traced.inputs):
                self._note(traced, args, before, after, sys._getframe(1))
            return result

        return compiled_and_noted

    @shielded
    def _note(self, traced: TracedGraph, args: Sequence[Any], before: int, after: int, frame: FrameType) -> None:
        watch = self._watch
        with DISABLE_TORCH_FUNCTION():
            constants = tuple(
                watch.log.constant(each, watch.facts.of_tensor)
                if isinstance(each, torch.Tensor) and not requires_grad_of(each)
                else None
                for each in args
            )
            sizes = sizes_of_call(traced, args)
            for index, each in zip(constants, args, strict=True):
                if index is not None and watch.values.is_taking:
                    watch.values.note_constant(index, each)
        log = watch.log.of_thread(threading.get_ident())
        function = _called_function(traced, frame)
        log.compiled_calls.append(CompiledCall(before, after, traced, constants, function, is_checkpointing(), sizes))


def sizes_of_call(traced: TracedGraph, args: Sequence[Any]) -> Sizes | None:
    """The sizes that a call got, where they are not those of the call that the code was compiled for."""
    if not any(isinstance(each, int) for each in traced.inputs):
        return None  # guards see to it that they are
    sizes = tuple(
        (tuple(arg.shape), tuple(arg.stride()))
        if isinstance(given, TensorInput) and isinstance(arg, torch.Tensor)
        else arg
        if isinstance(given, int) and isinstance(arg, int)
        else None
        for given, arg in zip(traced.inputs, args, strict=True)
    )
    return None if sizes == traced.sizes else sizes


_MAX_FRAMES = 8
"""Frames of torch between the code that Dynamo made and what it calls."""


def traced_frame(traced: TracedGraph, frame: FrameType | None) -> FrameType | None:
    """The frame of the code that Dynamo made, which calls what the backend compiled, from the called frame upwards."""
    for _ in range(_MAX_FRAMES):
        if frame is None or frame.f_code.co_name == traced.code_name:
            return frame
        frame = frame.f_back
    return None


def _called_function(traced: TracedGraph, frame: FrameType) -> str:
    """The function that `torch.compile` was asked for: behind a graph break, Dynamo also compiles what it calls."""
    inside = traced_frame(traced, frame)
    if traced.module_id or inside is None:
        return "" if traced.module_id else traced.function
    while inside.f_back is not None and not inside.f_back.f_code.co_filename.endswith("/torch/_dynamo/eval_frame.py"):
        inside = inside.f_back
    code = inside.f_code
    return "" if is_torch_file(code.co_filename) else function_name(code)
