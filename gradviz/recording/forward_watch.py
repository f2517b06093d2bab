"""Watches the forward computation: which torch function made a node, from which line, in which module call.

Problems solved here:

* A node knows nothing of Python. Its sequence number does the linking: torch's counter is read before and after each
  call, and every number in between belongs to the call, composite functions included.
* An active function mode, or global module hooks, would break the graphs of `torch.compile`, because Dynamo traces
  them. So watching is *paused* while compiled code runs (see `compiled_code`), and its nodes are noted as one row.
* Custom functions do not pass through ``__torch_function__``; see `torch_compat.function_apply_probe`.
* Everything is put back on `stop`, in whatever order it is found then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from torch.nn.modules import module as module_call
from torch.overrides import TorchFunctionMode

from gradviz.recording import torch_compat
from gradviz.recording.forward_log import NO_SCOPE, ForwardLog, ThreadLog
from gradviz.recording.stacks import CallFrame, StackTable, calling_frame
from gradviz.recording.tensor_facts import FactsTable

_Tensor = torch.Tensor
_peek = torch_compat.peek_sequence_nr


class _CallMode(TorchFunctionMode):
    """Sees every torch function that the thread calls from Python, and notes those that make nodes."""

    def __init__(self, watch: ForwardWatch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        before = _peek()
        result = func(*args, **kwargs) if kwargs else func(*args)
        after = _peek()
        if after != before:
            self._watch.note_call(before, after, func, args, kwargs)
        elif func is _Tensor.register_hook:
            self._watch.note_tensor_hook(args)
        return result


class ForwardWatch:
    """Fills a `ForwardLog` between `start` and `stop`; can be paused for a thread."""

    def __init__(self, facts: FactsTable) -> None:
        self.log = ForwardLog()
        self.stacks = StackTable()
        self._facts = facts
        self._mode = _CallMode(self)
        self._main_thread = threading.get_ident()
        self._main_log = self.log.of_thread(self._main_thread)
        self._module_hooks: list[Any] = []
        self._apply_probe = torch_compat.function_apply_probe()
        self._original_probe: Callable[..., Any] | None = None
        self._paused_hooks: list[tuple[dict[int, Any], int, Any]] = []
        self.is_watching = False

    # -- starting and stopping -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Install everything on the calling thread (module hooks: on all)."""
        self._module_hooks = [
            module_call.register_module_forward_pre_hook(self._enter_module),
            module_call.register_module_forward_hook(self._leave_module, always_call=True),
        ]
        self._install_probe()
        torch._C._push_on_torch_function_stack(self._mode)
        self.is_watching = True

    def stop(self) -> None:
        """Remove everything that `start` installed; safe to call twice."""
        if not self.is_watching:
            return
        self.is_watching = False
        _remove_mode(self._mode)
        self._remove_probe()
        for hook in self._module_hooks:
            hook.remove()
        self._module_hooks = []

    def pause(self, frame: FrameType | None, function: Any) -> int:
        """Take everything out of the way of `function`, called from `frame`; returns the row of its nodes."""
        log = self._log()
        row = log.add_row(_peek(), _peek(), function, self._stack(frame, log))
        _remove_mode(self._mode)
        self._remove_probe()
        self._paused_hooks = list(_take_hooks({hook.id for hook in self._module_hooks}))
        return row

    def resume(self, row: int) -> None:
        """Undo `pause`."""
        for hooks, key, hook in self._paused_hooks:
            hooks[key] = hook
        self._paused_hooks = []
        self._install_probe()
        torch._C._push_on_torch_function_stack(self._mode)
        self._log().close_row(row, _peek())

    def owns_hook(self, hook_id: int) -> bool:
        """True for the id of one of the recorder's own module hooks."""
        return any(hook.id == hook_id for hook in self._module_hooks)

    def _install_probe(self) -> None:
        if self._apply_probe is not None:
            module, name = self._apply_probe
            self._original_probe = original = getattr(module, name)

            def note_custom_function(setup_context: Any) -> Any:
                self._note_custom_function(calling_frame())
                return original(setup_context)

            setattr(module, name, note_custom_function)

    def _remove_probe(self) -> None:
        if self._apply_probe is not None and self._original_probe is not None:
            module, name = self._apply_probe
            setattr(module, name, self._original_probe)
            self._original_probe = None

    # -- noting --------------------------------------------------------------------------------------------------

    def _log(self) -> ThreadLog:
        thread = threading.get_ident()
        return self._main_log if thread == self._main_thread else self.log.of_thread(thread)

    def _stack(self, frame: FrameType | None, log: ThreadLog) -> int:
        return self.stacks.current(frame, log.running_calls)

    def note_call(self, before: int, after: int, function: Any, args: tuple[Any, ...], kwargs: Any) -> None:
        """A torch call made the nodes ``before`` to ``after - 1``."""
        log = self._main_log
        stack = self.stacks.current(calling_frame(), log.running_calls)
        row = log.add_row(before, after, function, stack)
        constants: tuple[int, ...] = ()
        with torch_compat.DISABLE_TORCH_FUNCTION():
            for tensor in _tensors_in(args, kwargs):
                if not tensor.requires_grad:
                    place = self.log.constant(tensor, self._facts.of_tensor)
                    constants = (*constants, place)
        if torch_compat.is_checkpointing():
            log.checkpointed_rows.add(row)
        if constants:
            log.row_constants[row] = constants

    def note_backward(self, before: int, frame: FrameType | None, function: str) -> int:
        """A backward call is about to run; what it makes (``create_graph``) belongs to this line."""
        log = self._log()
        return log.add_row(before, before, function, self._stack(frame, log))

    def end_backward(self, row: int) -> None:
        """The backward call of `row` is over."""
        self._log().close_row(row, _peek())

    def _note_custom_function(self, frame: FrameType) -> None:
        # Called inside Function.apply just before the node is made: it gets the next number.
        number = _peek()
        log = self._log()
        log.add_row(number, number + 1, "autograd.Function.apply", self._stack(frame, log))

    def note_tensor_hook(self, args: tuple[Any, ...]) -> None:
        """Remember the name of a hook on a tensor that is not a leaf; leaves carry theirs themselves."""
        if len(args) < 2:
            return
        with torch_compat.DISABLE_TORCH_FUNCTION():
            grad_fn = args[0].grad_fn
            if grad_fn is not None:
                names = self._main_log.tensor_hooks.setdefault(grad_fn._sequence_nr(), [])
                names.append(hook_name(args[1]))

    def _enter_module(self, module: torch.nn.Module, args: Any) -> None:
        log = self._log()
        running = log.running_calls
        scope = self.log.new_scope(module, running[-1].scope if running else NO_SCOPE)
        running.append(CallFrame(scope, id(module)))
        log.enter_scope(_peek(), scope)

    def _leave_module(self, module: torch.nn.Module, args: Any, result: Any) -> None:
        log = self._log()
        running = log.running_calls
        # Not simply the last one: the call may have begun before the recording did, and one that a hook of the
        # user's broke off never reported its end.
        depth = next((d for d in range(len(running) - 1, -1, -1) if running[d].module_id == id(module)), None)
        if depth is None:
            return
        del running[depth:]
        log.enter_scope(_peek(), running[-1].scope if running else NO_SCOPE)


def hook_name(hook: Any) -> str:
    """A readable name for a hook: the qualified name of its function, or its class."""
    name = getattr(hook, "__qualname__", None)
    return str(name) if name else type(hook).__qualname__


def _tensors_in(args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Iterator[torch.Tensor]:
    for value in args:
        if isinstance(value, _Tensor):
            yield value
        elif type(value) in (list, tuple):
            yield from (element for element in value if isinstance(element, _Tensor))
    if kwargs:
        yield from (value for value in kwargs.values() if isinstance(value, _Tensor))


def _remove_mode(mode: TorchFunctionMode) -> None:
    """Take a mode out of this thread's stack, also from below modes that the program entered since."""
    above = []
    while torch._C._len_torch_function_stack():
        top = torch._C._pop_torch_function_stack()
        if top is mode:
            break
        above.append(top)
    for other in reversed(above):
        torch._C._push_on_torch_function_stack(other)


def _take_hooks(ids: set[int]) -> Iterator[tuple[dict[int, Any], int, Any]]:
    for table in torch_compat.global_hook_tables():
        for key in [key for key in table if key in ids]:
            yield table, key, table.pop(key)
