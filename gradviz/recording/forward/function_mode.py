"""The function mode that sees every torch function which a thread calls from Python.

torch takes a mode off its stack while the mode's own handler runs, and pushes it back afterwards. If the mode is to be
removed in the meantime, as after the last backward, that push must have no effect.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, FunctionType, MethodWrapperType
from typing import Any, Protocol

import torch
from torch.overrides import TorchFunctionMode, handle_torch_function

from gradviz.recording.run.function_stand_in import StandIns
from gradviz.recording.torch_access.modes import is_tracing, pop_function_mode, push_function_mode, swallow_next_push
from gradviz.recording.torch_access.nodes import peek_sequence_nr
from gradviz.recording.torch_access.tensors import PLAIN_ATTRIBUTES

Note = Callable[[int, int, Any, tuple[Any, ...], Any, Any], None]
"""Arguments: sequence number before and after, function, arguments, keyword arguments, result."""

_PLAIN_CLASSES = (torch.Tensor, torch.nn.Parameter)
_peek = peek_sequence_nr
_DISPATCHER = handle_torch_function.__code__


class CallListener(Protocol):
    """Gets every call before and after it runs; see `call_recorder`."""

    def begin(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
        """It is about to run; the result is passed to `end` or `fail`. None for calls that are not logged."""

    def end(self, pending: Any, result: Any, before: int, after: int) -> object:
        """It has returned."""

    def fail(self, pending: Any, error: BaseException) -> None:
        """It raised."""


def _calling_frame() -> FrameType:
    """The frame of the program that called the torch function whose handler runs."""
    frame = sys._getframe(2)
    # Between a torch function written in Python and this handler there are that function and torch's dispatcher.
    if frame.f_code is _DISPATCHER and frame.f_back is not None and frame.f_back.f_back is not None:
        return frame.f_back.f_back
    return frame


def _reads_plainly(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether a call only reads an attribute which makes no node, which nothing notes, and of which nobody warns.

    A tensor of another class may do anything, and a traced graph has the lines that read shapes.
    """
    is_getter = type(function) is MethodWrapperType and function in PLAIN_ATTRIBUTES
    return is_getter and type(args[0]) in _PLAIN_CLASSES and not is_tracing()


class CallMode(TorchFunctionMode):
    """Calls `note` for every call that made nodes, and for the functions in `also`."""

    def __init__(self, note: Note, also: frozenset[Any]) -> None:
        super().__init__()
        self._note = note
        self._also = also
        self._stand_ins = StandIns()
        self._is_handling = False
        self.is_on = False
        self.before_call: Callable[[Any, tuple[Any, ...]], None] | None = None
        """Gets every call before it runs, while it is set."""
        self.listener: CallListener | None = None
        """Gets every call before and after it runs, also if it makes no nodes, while it is set."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if self.before_call is not None and self.is_on:
            self.before_call(func, args)
        if _reads_plainly(func, args):
            return func(*args)
        frame = _calling_frame()
        listener = self.listener if self.is_on else None
        pending = listener.begin(func, args, kwargs or {}, frame) if listener is not None else None
        before = _peek()
        self._is_handling = True
        try:
            stand_ins = self._stand_ins
            call = stand_ins.call_below_callers if type(func) is FunctionType else stand_ins.call
            result = call(frame, func, args, kwargs or {})
        except BaseException as error:
            if listener is not None and pending is not None:
                listener.fail(pending, error)
            raise
        finally:
            self._is_handling = False
        if self.is_on:
            after = _peek()
            if after != before or func in self._also:
                self._note(before, after, func, args, kwargs, result)
            if listener is not None and pending is not None:
                listener.end(pending, result, before, after)
        return result

    def put_on(self) -> None:
        """Begin to see the calls of this thread."""
        self.is_on = True
        push_function_mode(self)

    def take_off(self) -> bool:
        """Stop seeing the calls of this thread; False if the mode was not on its stack.

        Modes that the program has entered since then stay on it.
        """
        above = []
        found = False
        while not found and (top := pop_function_mode()) is not None:
            found = top is self
            if not found:
                above.append(top)
        for other in reversed(above):
            push_function_mode(other)
        if found:
            self.is_on = False
        return found

    def take_off_permanently(self) -> None:
        """The same at the end of the recording, also inside the handler."""
        self.is_on = False
        if not self.take_off() and self._is_handling:
            swallow_next_push(self)
