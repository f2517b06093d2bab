"""Notes which line and which module made a node in code that runs uncompiled inside a compiled function.

Behind some graph breaks Python goes on by itself: a loop that Dynamo gave up, a recurrent layer, a frame that it skips.
Function modes and module hooks must not be active there, because Dynamo would see them at the next compiled frame. So
Python's own trace and profile functions are set while a compiled function runs, unless the program has some: they tell
nothing to Dynamo. They are off while it compiles, which would be slow otherwise.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import torch

from gradviz.recording.compiled.operators_in_code import operators_in, reads_of_data
from gradviz.recording.compiled.uncompiled_cuts import CUTTING, SWITCH, UncompiledCuts
from gradviz.recording.forward.forward_log import CUSTOM_CALL, NO_SCOPE, ThreadLog
from gradviz.recording.forward_watch import ForwardWatch
from gradviz.recording.run.file_kinds import is_library_file, is_torch_file, torch_folder
from gradviz.recording.run.recording_failures import shielded
from gradviz.recording.run.traced_stacks import is_made_by_fx
from gradviz.recording.torch_access.capabilities import works
from gradviz.recording.torch_access.dynamo.dynamo_graphs import is_made_by_dynamo
from gradviz.recording.torch_access.dynamo.frame_compiler import FrameCompiler
from gradviz.recording.torch_access.dynamo.untraced import can_be_off, off_switch, untraced
from gradviz.recording.torch_access.frames import custom_function_code, module_runner_code
from gradviz.recording.torch_access.modes import is_checkpointing
from gradviz.recording.torch_access.modules import compiled_from
from gradviz.recording.torch_access.nodes import peek_sequence_nr

_APPLY = "apply"
"""Of custom functions; written in Python until torch 2.13."""
_FUNCTIONAL = ("torch/nn/functional.py", "torch/functional.py", "torch/_tensor.py")
"""Files of torch with functions that users call, and that a function mode would see as one call."""
_CLEARING = inspect.unwrap(torch.optim.Optimizer.zero_grad).__code__
"""Torch keeps Dynamo from compiling it."""
_peek = peek_sequence_nr


class UncompiledCode:
    """Adds rows to the log of the thread, between `begin` and `end`; in between, rows of the compiled function.

    Args:
        compiler: tells when Dynamo compiles; nothing is noted meanwhile.
    """

    def __init__(self, watch: ForwardWatch, compiler: FrameCompiler) -> None:
        self.defects = watch.defects
        self._watch = watch
        self._log, self._stacks, self._cuts = watch.log, watch.stacks, UncompiledCuts(watch)
        self._thread = ThreadLog()
        self._compiler = compiler
        compiler.add(lambda _: self._silence())
        self._module_code, self._custom_code = module_runner_code(), custom_function_code()
        self._applying: FrameType | None = None
        """The frame that has just called ``apply`` of a custom function, where that is not Python."""
        self._row = 0
        self._limit: FrameType | None = None
        """The frame that called the compiled function."""
        self._last = 0
        """The number of the next node when this was last looked at."""
        self._offsets: dict[int, int] = {}
        """For each running frame, by ``id()``, the instruction at which its line begins."""
        self._scopes: list[tuple[FrameType, int]] = []
        """The module calls that run, with their frames."""
        self._lined: dict[int, bool] = {}
        """Whether lines are wanted of a code object, by its ``id()``: Dynamo makes some that cannot be hashed."""
        self._stepped: dict[int, bool] = {}
        """Of those, whether every instruction is wanted."""
        self._reads: dict[int, dict[int, str]] = {}
        """Where code reads ``data`` of a local variable."""
        self._operators: dict[int, dict[int, str]] = {}
        """The operators of a code object, by its ``id()``."""
        self._instructions: dict[int, int] = {}
        """For each running frame of which every instruction is traced, by ``id()``, the one that runs."""
        self._codes: list[CodeType] = []
        """Keeps these alive."""
        self._functions: tuple[Any, Any] | None = None
        """Python's trace and profile functions, while they are ours."""

    def begin(self, row: int, thread: ThreadLog, limit: FrameType) -> None:
        """A compiled function is about to run; its nodes are to be in `row`."""
        self._row, self._thread, self._limit = row, thread, limit
        is_free = sys.gettrace() is None and sys.getprofile() is None
        if is_free and self._compiler.is_in_force and works("uncompiled code") and can_be_off():
            self._last = _peek()
            self._functions = self._trace_and_profile()
            self._set(*self._functions)

    def end(self) -> int:
        """It has ended, or is left for a while; returns the row that is to be closed."""
        if self._functions is not None:
            self._unset()
            self._offsets.clear()
            self._instructions.clear()
            if self._scopes:
                self._scopes.clear()
                self._thread.enter_scope(_peek(), self._running_scope())
        self._limit = self._functions = self._applying = None
        self._cuts.end()
        return self._row

    # -- Python's trace and profile functions --------------------------------------------------------------------

    def _set(self, trace: Any, profile: Any) -> None:
        sys.settrace(trace)
        sys.setprofile(profile)

    def _unset(self) -> None:
        """Unless the program has replaced them."""
        trace, profile = self._functions or (None, None)
        if sys.gettrace() is trace:
            sys.settrace(None)
        if sys.getprofile() is profile:
            sys.setprofile(None)

    @contextmanager
    def _silence(self) -> Iterator[None]:
        if self._functions is None or (sys.gettrace(), sys.getprofile()) != self._functions:
            yield
            return
        self._unset()
        try:
            yield
        finally:
            if self._functions is not None:
                self._last = max(self._last, _peek())
                self._set(*self._functions)

    def _trace_and_profile(self) -> tuple[Any, Any]:
        """The functions that Python calls; Dynamo is off before they call any other one in Python."""
        switch_off, offsets, lined, module_code = off_switch(), self._offsets, self._lined, self._module_code
        stepped, instructions, reads = self._stepped, self._instructions, self._reads
        called = CUTTING if self._custom_code is not None else CUTTING | {_APPLY}

        @untraced
        def with_dynamo_off(look: Callable[..., None], *args: Any) -> None:
            callback = switch_off(None)
            look(*args)
            switch_off(callback)

        @untraced
        def profile(frame: FrameType, event: str, arg: Any) -> None:
            is_module_call = frame.f_code is module_code and event in ("call", "return")
            if _peek() != self._last:
                with_dynamo_off(self._look, frame, event, arg)
            if is_module_call:
                with_dynamo_off(self._look_at_module, frame, event)
            if frame.f_code is _CLEARING and event == "call":
                with_dynamo_off(self._look_at_clear, frame)
            if (event == "c_call" and arg.__name__ in called) or (event == "c_return" and arg.__name__ == SWITCH):
                with_dynamo_off(self._look_at_cut, frame, arg)

        @untraced
        def lines(frame: FrameType, event: str, arg: Any) -> Any:
            if _peek() != self._last:
                with_dynamo_off(self._look, frame, event, None)
            if event == "opcode":
                instructions[id(frame)] = frame.f_lasti
                if frame.f_lasti in reads[id(frame.f_code)]:
                    with_dynamo_off(self._look_at_data, frame)
            elif event == "line":
                offsets[id(frame)] = frame.f_lasti
                if stepped[id(frame.f_code)]:
                    frame.f_trace_opcodes = True  # not before: Python 3.13 ignores it in a frame that has just begun
            elif event == "return":
                offsets.pop(id(frame), None)
                instructions.pop(id(frame), None)
            return lines

        @untraced
        def trace(frame: FrameType, event: str, arg: Any) -> Any:
            if id(frame.f_code) not in lined or _peek() != self._last:
                with_dynamo_off(self._keep, frame.f_code)
                with_dynamo_off(self._look, frame, event, None)
            return lines if lined[id(frame.f_code)] else None

        return trace, profile

    # -- noting --------------------------------------------------------------------------------------------------

    @shielded
    def _keep(self, code: CodeType) -> None:
        if id(code) not in self._lined:
            self._codes.append(code)
            self._stepped[id(code)] = self._lined[id(code)] = False
            self._reads[id(code)] = reads_of_data(code)
            if not (is_torch_file(code.co_filename) or code.co_filename.startswith("<")):
                self._lined[id(code)] = True
                self._stepped[id(code)] = bool(self._reads[id(code)]) or self._has_several(code)

    @shielded
    def _look(self, frame: FrameType, event: str, arg: Any) -> None:
        now = _peek()
        if now != self._last:
            start, self._last = self._last, now
            maker = frame.f_back if event == "call" else frame
            if maker is not None and not self._is_compiled(frame):
                self._note(start, now, maker, self._function(maker, event, arg))

    @shielded
    def _look_at_module(self, frame: FrameType, event: str) -> None:
        if event == "call":
            self._enter_module(frame)
        else:
            self._leave_module(frame)

    @shielded
    def _look_at_clear(self, frame: FrameType) -> None:
        calls = self._watch.calls
        if calls is not None and not calls.writer.is_elsewhere():
            calls.optimizers.clears_in_compiled(frame.f_locals.get("self"))

    @shielded
    def _look_at_cut(self, frame: FrameType, function: Any) -> None:
        if self._is_compiled(frame):
            return
        if function.__name__ == SWITCH:
            self._cuts.note_switch(frame)
        elif function.__name__ == _APPLY:
            if _is_custom_function(getattr(function, "__self__", None)):
                self._applying = frame
        elif not is_torch_file(frame.f_code.co_filename):
            self._cuts.note(function.__name__, getattr(function, "__self__", None), frame)

    @shielded
    def _look_at_data(self, frame: FrameType) -> None:
        variable = self._reads[id(frame.f_code)][frame.f_lasti]
        self._cuts.note("data", frame.f_locals.get(variable), frame)

    def _is_compiled(self, frame: FrameType | None) -> bool:
        """Whether compiled code runs there, or what torch wraps around it."""
        while frame is not None and frame is not self._limit:
            file = frame.f_code.co_filename
            if is_made_by_fx(file) or _is_of_compiler(file):
                return True
            frame = frame.f_back
        return False

    def _function(self, maker: FrameType, event: str, arg: Any) -> Any:
        """What was called there; None if it is not known."""
        if event == "call" and (maker.f_code is self._custom_code or maker is self._applying):
            self._applying = None
            return CUSTOM_CALL
        written = _function_in_python(maker)
        if written is not None:
            return written
        if event == "c_return":
            owner = getattr(arg, "__self__", None)
            return getattr(torch.Tensor, arg.__name__, None) if isinstance(owner, torch.Tensor) else arg
        code, line_of = maker.f_code, self._stacks.line_of
        operators = self._operators_of(code)
        if id(maker) in self._instructions:
            methods = {operators.get(self._instructions[id(maker)], "")}
        else:
            line = line_of(code, self._offsets.get(id(maker), maker.f_lasti))
            methods = {method for offset, method in operators.items() if line_of(code, offset) == line}
        return getattr(torch.Tensor, methods.pop(), None) if len(methods) == 1 else None

    def _operators_of(self, code: CodeType) -> dict[int, str]:
        if id(code) not in self._operators:
            self._codes.append(code)
            self._operators[id(code)] = operators_in(code)
        return self._operators[id(code)]

    def _has_several(self, code: CodeType) -> bool:
        """Whether a line has several operators, so that only its instructions tell which of them made a node."""
        lines = [self._stacks.line_of(code, offset) for offset in self._operators_of(code)]
        return len(set(lines)) < len(lines)

    def _note(self, start: int, end: int, maker: FrameType, function: Any) -> None:
        thread = self._thread
        thread.close_row(self._row, start)
        stack = self._stacks.current(maker, [], self._offsets.get(id(maker)))
        row = thread.add_row(start, end, function, stack)
        thread.uncompiled_rows.add(row)
        if is_checkpointing():
            thread.checkpointed_rows.add(row)
        self._row = thread.add_part(self._row, end)

    def _enter_module(self, frame: FrameType) -> None:
        module = frame.f_locals.get("self")
        if not isinstance(module, torch.nn.Module) or is_made_by_dynamo(module):
            return
        self._cuts.note_module(module)
        parent = self._running_scope()
        is_inside = compiled_from(self._log.module_of(parent)) is module  # what torch.compile wrapped
        scope = parent if is_inside else self._log.new_scope(module, parent)
        self._scopes.append((frame, scope))
        self._thread.enter_scope(_peek(), scope)

    def _leave_module(self, frame: FrameType) -> None:
        if any(known is frame for known, _ in self._scopes):
            while self._scopes.pop()[0] is not frame:
                pass  # calls that an exception ended
            self._thread.enter_scope(_peek(), self._running_scope())

    def _running_scope(self) -> int:
        if self._scopes:
            return self._scopes[-1][1]
        running = self._thread.running_calls
        return running[-1].scope if running else NO_SCOPE


def _is_custom_function(owner: Any) -> bool:
    return isinstance(owner, type) and issubclass(owner, torch.autograd.Function)


def _is_of_compiler(file: str) -> bool:
    """Whether torch's code that runs compiled code is in the file, or inductor wrote it."""
    if file.startswith(torch_folder()):
        return file.removeprefix(torch_folder()).startswith(("_functorch/", "_inductor/"))
    return "torchinductor_" in file and not is_library_file(file)


def _function_in_python(frame: FrameType) -> Any:
    """The function of torch, written in Python, that the program called there: the outermost that is one of its API."""
    found: Any = None
    here: FrameType | None = frame
    while here is not None and here.f_code.co_filename.endswith(_FUNCTIONAL) and is_torch_file(here.f_code.co_filename):
        found, here = _public_function(here.f_code) or found, here.f_back
    return found


def _public_function(code: CodeType) -> Any:
    owner = torch.Tensor if code.co_filename.endswith("_tensor.py") else torch.nn.functional
    name = code.co_name if hasattr(owner, code.co_name) else code.co_name.lstrip("_")
    return getattr(owner, name, None) or getattr(torch, name, None)
