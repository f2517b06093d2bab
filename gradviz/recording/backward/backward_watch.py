"""Notices every ``Tensor.backward``, ``torch.autograd.backward`` and ``torch.autograd.grad`` of the program.

They all end in one engine call, ``_engine_run_backward``, which torch itself replaces in the same way for tracing.
Calls that a node makes inside the engine (reentrant checkpointing, a custom backward) are not recorded as the
program's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal

from gradviz.recording.run.function_stand_in import StandIns
from gradviz.recording.torch_access.dynamo.untraced import off_switch, untraced
from gradviz.recording.torch_access.engine import current_graph_task_id
from gradviz.recording.torch_access.patches import Replacement
from gradviz.recording.torch_access.unwatched_backward import is_unwatched


@dataclass(frozen=True)
class BackwardRequest:
    """The arguments of a backward call of the program."""

    function: Literal["backward", "grad"]
    roots: tuple[Any, ...]
    """Tensors, or ``GradientEdge``s."""
    inputs: tuple[Any, ...]
    """Where the gradients are wanted; empty for every leaf."""
    retain_graph: bool
    create_graph: bool
    gradients: tuple[Any, ...]
    """The gradient that each root starts from; None if torch is to take ones."""
    frame: FrameType
    """The frame of torch that called the engine; the program's own are above it."""
    is_at_graph_break: bool = False
    """Whether it is called in the middle of a compiled function, which goes on afterwards."""


Handler = Callable[[BackwardRequest, Callable[[], Any]], Any]


class BackwardWatch:
    """Passes every backward call of this process to `handle`, which runs it by calling its second argument.

    For a call that a node makes, only `note_inner` is called, on the thread that runs the node.
    """

    def __init__(self, handle: Handler, note_inner: Callable[[FrameType], None]) -> None:
        self._handle = handle
        self._note_inner = note_inner
        modules = "torch.autograd", "torch.autograd.graph"
        self._entries = [Replacement(f"{module}._engine_run_backward") for module in modules]
        self._process = os.getpid()
        self._stand_ins = StandIns()

    def start(self) -> None:
        """Replace torch's entry to the engine."""
        for entry in self._entries:
            entry.put(self._watched)

    def stop(self) -> None:
        """Put torch's entry back; safe to call twice."""
        for entry in self._entries:
            entry.take_back()

    def _watched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        dynamo_off = off_switch()

        @untraced
        def run_backward(t_outputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            # At a graph break Dynamo would compile what follows, and the hooks that gradviz puts on nodes.
            before = dynamo_off(None)
            frame, is_at_break = sys._getframe(1), before is not None
            try:
                return self._run(original, frame, (t_outputs, *args), kwargs, is_at_graph_break=is_at_break)
            finally:
                if is_at_break:
                    dynamo_off(before)

        return run_backward

    def _run(
        self,
        original: Callable[..., Any],
        frame: FrameType,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        is_at_graph_break: bool,
    ) -> Any:
        # A forked worker is another program, and is not recorded.
        if os.getpid() != self._process:
            return original(*args, **kwargs)
        is_inner = current_graph_task_id() != -1
        if is_inner:
            self._note_inner(frame)
        if is_inner or is_unwatched():
            return original(*args, **kwargs)
        request = BackwardRequest(
            function="backward" if kwargs.get("accumulate_grad", False) else "grad",
            roots=tuple(args[0]),
            inputs=tuple(kwargs.get("inputs") or (args[4] if len(args) > 4 else ())),
            retain_graph=bool(args[2]) if len(args) > 2 else False,
            create_graph=bool(args[3]) if len(args) > 3 else False,
            gradients=tuple(args[1]) if len(args) > 1 else (),
            frame=frame,
            is_at_graph_break=is_at_graph_break,
        )
        call = self._stand_ins.call_below_callers
        return self._handle(request, lambda: call(request.frame, original, args, kwargs))
