"""Watches the forward computation: which torch function made a node, from which line, in which module call.

Problems solved here:

* A node knows nothing of Python. Its sequence number is the link: torch's counter is read before and after each call,
  and every number in between belongs to the call, composite functions included.
* An active function mode, or global module hooks, would break the graphs of `torch.compile`, because Dynamo traces
  them. So watching is *paused* while compiled code runs (see `compiled_code`), and its nodes are noted as one row.
* Custom functions do not pass through ``__torch_function__``; see `torch_access.custom_functions`.
* `stop` puts everything back, even if other tools installed something since.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import FrameType, MethodWrapperType
from typing import Any, NamedTuple

import torch
from torch.nn.modules import module as module_call

from gradviz.graph.compilations import Compilation
from gradviz.recording.backward.backward_watch import BackwardRequest
from gradviz.recording.calls.call_recorder import CallRecorder
from gradviz.recording.calls.data_loading import DataLoading
from gradviz.recording.calls.rows import Row as CallRow
from gradviz.recording.compiled.noted_cuts import NotedCuts
from gradviz.recording.fingerprints.fingerprint_meter import FingerprintMeter
from gradviz.recording.forward.copies import COPYING
from gradviz.recording.forward.forward_log import CUSTOM_CALL, NO_SCOPE, ForwardLog, Moved, ThreadLog
from gradviz.recording.forward.forward_memory import ForwardMemory
from gradviz.recording.forward.forward_values import ForwardValues
from gradviz.recording.forward.function_mode import CallMode
from gradviz.recording.forward.module_tree import parameters_inside
from gradviz.recording.forward.python_numbers import ARITHMETIC, python_number
from gradviz.recording.forward.tensor_hooks import hook_name
from gradviz.recording.forward.tensors_in_containers import tensors_in_call
from gradviz.recording.ranks.exchange_watch import ExchangeWatch
from gradviz.recording.ranks.optimizer_watch import OptimizerWatch
from gradviz.recording.ranks.peer_watch import PeerWatch
from gradviz.recording.ranks.replica_watch import ReplicaWatch
from gradviz.recording.run.line_attribution import CallFrame, StackTable, calling_frame
from gradviz.recording.run.recording_failures import Defects, shielded
from gradviz.recording.torch_access import custom_functions
from gradviz.recording.torch_access.capabilities import works
from gradviz.recording.torch_access.distributed.parameter_shards import moved_by, placements_in
from gradviz.recording.torch_access.distributed.remote_backward import RemoteBackwardNotice
from gradviz.recording.torch_access.distributed.sharded_parameters import ShardingWatch, forget_sharded_parameters
from gradviz.recording.torch_access.dynamo.dynamo_graphs import TracedGraph
from gradviz.recording.torch_access.modes import is_checkpointing
from gradviz.recording.torch_access.modules import (
    FUSED_WITHOUT_MODES,
    backward_hooks,
    backward_pre_hooks,
    global_hook_tables,
)
from gradviz.recording.torch_access.nodes import peek_sequence_nr, sequence_nr_of
from gradviz.recording.torch_access.removed_hooks import remove_hooks
from gradviz.recording.torch_access.swapped_tensors import SwappedTensors
from gradviz.recording.torch_access.tensor_facts import FactsTable
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION, MAKE_NO_NODES, requires_grad_of

_Tensor = torch.Tensor
_requires_grad = requires_grad_of
_peek = peek_sequence_nr


class ForwardWatch:
    """Fills a `ForwardLog` between `start` and `stop`; can be paused for a thread."""

    def __init__(
        self,
        facts: FactsTable,
        values_up_to: int = 0,
        *,
        logs_calls: bool = False,
        fingerprints: bool = False,
        totals: bool = True,
    ) -> None:
        meter = FingerprintMeter() if fingerprints else None
        self.calls = CallRecorder(facts, self._locate, meter) if logs_calls else None
        """The log of every call, if it is wanted."""
        self.takes_fingerprints = fingerprints
        self.compiled_row: CallRow | None = None
        """The row of the compiled code that runs now."""
        self.log = ForwardLog()
        self.stacks = StackTable()
        self.memory = ForwardMemory(with_totals=totals)
        self.defects = Defects()
        self.traced_graphs: list[TracedGraph] = []
        """What Dynamo traced while this recording ran."""
        self.compilations: list[Compilation] = []
        """What it compiled, in order."""
        self.noted_cuts = NotedCuts()
        self.values = ForwardValues(facts, values_up_to)
        self.facts = facts
        self._mode = CallMode(self._note_call, also=frozenset({_Tensor.register_hook, *COPYING}))
        if self.calls is not None and not fingerprints:
            self.calls.loading = DataLoading(self.calls.writer, self._mode.take_off, self._mode.put_on)
        self._mode_was_on = False
        self._main_thread = threading.get_ident()
        self._main_log = self.log.of_thread(self._main_thread)
        self._module_hooks: list[Any] = []
        self._swapped = SwappedTensors(self._release)
        watch_class = custom_functions.working_way() if works("custom functions") else None
        self._custom_functions = watch_class(CustomFunctionCalls(self)) if watch_class is not None else None
        self._sharding = ShardingWatch(self._release)
        self._paused_hooks: list[tuple[dict[int, Any], int, Any]] = []
        self.exchanges = ExchangeWatch(self.log.modules_that_ran, self.defects)
        self.remote_backward = RemoteBackwardNotice()
        self.replicas: ReplicaWatch | None = None
        self.optimizers: OptimizerWatch | None = None
        self.peers: PeerWatch | None = None
        self.is_watching = False

    # -- starting and stopping -----------------------------------------------------------------------------------

    def watch_other_ranks(self) -> None:
        """From `start` on, read the parameters that all ranks should have alike, what optimizers keep, and what ranks
        send each other."""
        self.replicas = ReplicaWatch(self.log.modules_that_ran, self.defects)
        self.optimizers = OptimizerWatch(self.log.modules_that_ran, self.defects)
        self.peers = PeerWatch(self.defects)

    def start(self) -> None:
        """Install everything on the calling thread (module hooks: on all threads)."""
        self._module_hooks = [
            module_call.register_module_forward_pre_hook(self._enter_module),
            module_call.register_module_forward_hook(self._leave_module, always_call=True),
        ]
        self._install_probe()
        self._swapped.start()
        if self.calls is not None and self.calls.loading is not None:
            self.calls.loading.start()
        self.remote_backward.start()
        if self.peers is not None:
            self.peers.start()
        self._mode.listener = self.calls
        self._mode.put_on()
        self.is_watching = True

    def await_forward(self, *, is_brief: bool = False) -> None:
        """Note what exists when the next forward computation of the main thread begins: see `ForwardMemory.arm`."""
        self.memory.arm(is_brief=is_brief)
        self.values.begin()
        self._mode.before_call = self._before_call if self.memory.reads_totals else None

    def stop(self) -> None:
        """Remove everything that `start` installed; safe to call twice."""
        self.is_watching = False
        self._mode.before_call = self._mode.listener = None
        # Every time, because a thread that called backward cannot reach the mode stack of another thread.
        self._mode.take_off_permanently()
        self._remove_probe()
        if self.calls is not None and self.calls.loading is not None:
            self.calls.loading.stop()
        self._swapped.stop()
        self._sharding.stop()
        self.exchanges.stop()
        self.remote_backward.stop()
        if self.peers is not None:
            self.peers.stop()
        remove_hooks(self._module_hooks)
        self._module_hooks = []

    def release_all(self) -> None:
        """The recording has ended and was read: drop all references to tensors of the program, also weak ones."""
        self.memory.forget()
        forget_sharded_parameters()
        self.log.release_all()
        self.traced_graphs.clear()
        if self.peers is not None:
            self.peers.release_all()
        if self.calls is not None:
            self.calls.release_all()

    def pause(self, frame: FrameType | None, function: Any, *, only_traces: bool = False) -> int:
        """Remove everything before `function`, called from `frame`, runs; returns the row for its nodes.

        If it `only_traces`, it computes nothing for the program, and is no call of the log.
        """
        log = self._log()
        row = log.add_row(_peek(), _peek(), function, self._stack(frame, log))
        self.compiled_row = None
        if self.calls is not None and not only_traces:
            self.compiled_row = self.calls.events.begin_compiled(frame, function)
        if self.calls is not None:
            self.calls.optimizers.before_compiled()
        # Inside backward torch itself has removed the mode already, and will put it back.
        self._mode_was_on = self._mode.take_off()
        self._remove_probe()
        self._paused_hooks = list(_take_hooks({hook.id for hook in self._module_hooks}))
        return row

    def resume(self, row: int) -> None:
        """Undo `pause`."""
        for hooks, key, hook in self._paused_hooks:
            hooks[key] = hook
        self._paused_hooks = []
        self._install_probe()
        if self._mode_was_on:
            self._mode.put_on()
        self._log().close_row(row, _peek())
        if self.calls is not None and self.compiled_row is not None:
            self.calls.events.end_compiled(self.compiled_row)
        self.compiled_row = None
        if self.calls is not None:
            self.calls.optimizers.after_compiled(calling_frame())

    def owns_hook(self, hook_id: int) -> bool:
        """True for the id of one of the recorder's own module hooks."""
        return any(hook.id == hook_id for hook in self._module_hooks)

    def _install_probe(self) -> None:
        if self._custom_functions is not None:
            self._custom_functions.start()
        if self.calls is not None:
            self.calls.modules.start()
            self.calls.variables.start()
            self.calls.loads.start()
            self.calls.replaced.start()
            self.calls.schedules.start()
            self.calls.optimizers.start()
        if self.replicas is not None:
            self.replicas.start()
        if self.optimizers is not None:
            self.optimizers.start()

    def _remove_probe(self) -> None:
        if self._custom_functions is not None:
            self._custom_functions.stop()
        if self.calls is not None:
            self.calls.modules.stop()
            self.calls.variables.stop()
            self.calls.loads.stop()
            self.calls.replaced.stop()
            self.calls.schedules.stop()
            self.calls.optimizers.stop()
        if self.replicas is not None:
            self.replicas.stop()
        if self.optimizers is not None:
            self.optimizers.stop()

    # -- noting --------------------------------------------------------------------------------------------------

    def _log(self) -> ThreadLog:
        thread = threading.get_ident()
        return self._main_log if thread == self._main_thread else self.log.of_thread(thread)

    def _locate(self, frame: FrameType | None) -> tuple[int, int]:
        """Stack and module scope of a frame of the main thread, for the log of every call."""
        log = self._main_log
        stack = self._stack(frame, log)
        return stack, log.running_calls[-1].scope if log.running_calls else NO_SCOPE

    def _stack(self, frame: FrameType | None, log: ThreadLog, sequence_nr: int | None = None) -> int:
        running = len(log.running_calls)
        stack = self.stacks.current(frame, log.running_calls)
        if len(log.running_calls) != running:
            log.enter_scope(_peek() if sequence_nr is None else sequence_nr, NO_SCOPE)
        return stack

    @shielded
    def _release(self, tensor: _Tensor) -> None:
        self.log.release(tensor)
        if self.calls is not None:
            self.calls.writer.uses.tensors.release(tensor)
        if self.replicas is not None:
            self.replicas.release(tensor)

    @shielded
    def _note_call(
        self, before: int, after: int, function: Any, args: tuple[Any, ...], kwargs: Any, result: Any
    ) -> None:
        """A torch call made the nodes ``before`` to ``after - 1``; or none, if it hooked or copied a tensor."""
        if after == before:
            if function in COPYING:
                with DISABLE_TORCH_FUNCTION():
                    self.log.copies.note(function, args, result)
            else:
                self._note_tensor_hook(args, result)
            return
        log = self._main_log
        if self.memory.is_waiting:
            self.memory.after_first_nodes(calling_frame(), args)
        row = log.add_row(before, after, function, self._stack(calling_frame(), log, before))
        with DISABLE_TORCH_FUNCTION():
            constants = [
                self.log.constant(tensor, self.facts.of_tensor)
                for tensor in tensors_in_call(args, kwargs)
                if not _requires_grad(tensor)
            ]
        if id(function) in ARITHMETIC:
            number = python_number(args)
            if number is not None:
                log.row_numbers[row] = number
        if is_checkpointing():
            log.checkpointed_rows.add(row)
        if kwargs and kwargs.get("inplace") is True:
            log.inplace_rows.add(row)
        if constants:
            log.row_constants[row] = tuple(constants)
        if type(result) is not _Tensor:
            self._note_placements(log, row, result)
        if self.values.is_taking:
            self.values.note_results(before, after, tensors_in_call((result,), None))
            for index in constants:
                tensor = self.log.constants[index].tensor()
                if tensor is not None:
                    self.values.note_constant(index, tensor)

    def _note_placements(self, log: ThreadLog, row: int, result: Any) -> None:
        first = result[0] if isinstance(result, tuple | list) and result else result
        placements = placements_in(first)
        if placements:
            log.row_placements[row] = Moved((), placements)

    @shielded
    def _before_call(self, function: Any, args: tuple[Any, ...]) -> None:
        if self.memory.is_waiting:
            if type(function) is not MethodWrapperType or function not in MAKE_NO_NODES:
                self.memory.before_call(args)
        else:
            self._mode.before_call = None

    def note_backward(self, before: int, request: BackwardRequest) -> int:
        """A backward call is about to run; the nodes that it makes (``create_graph``) belong to this line."""
        log = self._log()
        return log.add_row(before, before, f"torch.autograd.{request.function}", self._stack(request.frame, log))

    def end_backward(self, row: int) -> None:
        """The backward call of `row` has ended."""
        self._log().close_row(row, _peek())
        self.forget_what_is_old()

    @shielded
    def forget_what_is_old(self) -> None:
        """A backward call has ended: forget what was computed long before it."""
        self.exchanges.forget()
        self.log.end_call(self._log(), _peek(), set if self.calls is None else self.calls.writer.rows.scopes)

    @shielded
    def note_custom_function(self, frame: FrameType, number: int) -> None:
        """A custom function was called from `frame`; its node has this number."""
        log = self._log()
        log.add_row(number, number + 1, CUSTOM_CALL, self._stack(frame, log))

    @shielded
    def note_placements_of(self, number: int, function: Any, args: tuple[Any, ...]) -> None:
        """The custom function whose node has this number is about to run with these arguments."""
        moved = Moved(*moved_by(function, args))
        row = self._log().row_of(number) if moved.before or moved.after else None
        if row is not None:
            self._log().row_placements[row.number] = moved

    def _note_tensor_hook(self, args: tuple[Any, ...], handle: Any) -> None:
        # A leaf has its hooks; those of other tensors are on the node, which cannot be read.
        if len(args) < 2:
            return
        with DISABLE_TORCH_FUNCTION():
            grad_fn = args[0].grad_fn
            if grad_fn is not None:
                hooks = self._main_log.tensor_hooks.setdefault(sequence_nr_of(grad_fn), [])
                hooks.append((hook_name(args[1]), handle))

    @shielded
    def _enter_module(self, module: torch.nn.Module, args: Any) -> None:
        self._sharding.look()
        self.exchanges.look()
        log = self._log()
        running = log.running_calls
        call_frame = self._module_call_frame(calling_frame())
        if call_frame is not None:
            _drop_broken_calls(running, self._module_call_frame(call_frame.f_back))
        if self.memory.is_waiting and not running and log is self._main_log:
            self.memory.enter_module(calling_frame(), module, args)
        scope = self.log.new_scope(module, running[-1].scope if running else NO_SCOPE)
        running.append(CallFrame(scope, id(module), id(call_frame)))
        log.enter_scope(_peek(), scope)
        if log is not self._main_log:
            self.log.modules_elsewhere[self.log.scopes[scope].module] = None
        if self.calls is not None and (backward_hooks(module) or backward_pre_hooks(module)):
            self.calls.events.note_module_hooks(module, calling_frame())
        if log is self._main_log and isinstance(module, FUSED_WITHOUT_MODES):
            self._enter_fused(module, args)

    def _module_call_frame(self, frame: FrameType | None) -> FrameType | None:
        """The innermost frame, from `frame` upwards, in which torch runs a module call."""
        while frame is not None and frame.f_code is not self.stacks.module_call_code:
            frame = frame.f_back
        return frame

    @shielded
    def _leave_module(self, module: torch.nn.Module, args: Any, result: Any) -> None:
        log = self._log()
        running = log.running_calls
        # Not always the last one: the call may have begun before the recording did.
        depth = next((d for d in range(len(running) - 1, -1, -1) if running[d].module_id == id(module)), None)
        if depth is None:
            return
        if running[depth].has_paused_mode:
            self._leave_fused(running[depth], result)
        del running[depth:]
        log.enter_scope(_peek(), running[-1].scope if running else NO_SCOPE)

    def _enter_fused(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        """Pause the mode, so that inference uses the same fused kernel as without a recorder; it makes no nodes.

        One row stands for all calls of the module: what it gets and returns may be on the way to a loss.
        """
        with DISABLE_TORCH_FUNCTION():
            parameters = parameters_inside(module)
            tensors = [*tensors_in_call(args, None), *parameters]
            differentiates = torch.is_grad_enabled() and any(_requires_grad(tensor) for tensor in tensors)
        if module.training or differentiates or not self._mode.take_off():
            return
        call = self._main_log.running_calls[-1]
        call.has_paused_mode = True
        if self._mode.listener is not None:
            call.pending = self._mode.listener.begin(type(module), (*args, *parameters), {}, calling_frame())

    def _leave_fused(self, call: CallFrame, result: Any) -> None:
        self._mode.put_on()
        if self._mode.listener is not None and call.pending is not None:
            self._mode.listener.end(call.pending, result, _peek(), _peek())


class CustomFunctionCalls:
    """Passes what `torch_access.custom_functions` sees on to a watch."""

    def __init__(self, watch: ForwardWatch) -> None:
        self._watch = watch

    def begin(self, frame: FrameType, function: Any, number: int) -> _Begun:
        """A custom function was called from `frame`; its node has this number."""
        self._watch.note_custom_function(frame, number)
        calls = self._watch.calls
        call = None if calls is None else calls.events.begin_custom_function(frame, function, number)
        return _Begun(function, number, call)

    def enter(
        self, begun: _Begun, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType, at: int | None
    ) -> None:
        """Its ``forward`` is about to run."""
        self._watch.note_placements_of(begun.number, begun.function, args)
        if begun.call is not None and self._watch.calls is not None:
            self._watch.calls.events.enter_custom_function(begun.call, args, kwargs, frame, at)


class _Begun(NamedTuple):
    """A call of a custom function."""

    function: Any
    number: int
    call: CallRow | None
    """In the log of calls, if there is one."""


def _drop_broken_calls(running: list[CallFrame], enclosing: FrameType | None) -> None:
    """Forget calls that ended with a `BaseException`, for which torch calls no hook: their frames are gone."""
    while running and running[-1].frame_id != id(enclosing):
        running.pop()


def _take_hooks(ids: set[int]) -> Iterator[tuple[dict[int, Any], int, Any]]:
    for table in global_hook_tables():
        for key in [key for key in table if key in ids]:
            yield table, key, table.pop(key)
