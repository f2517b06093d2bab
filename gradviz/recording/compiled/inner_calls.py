"""Logs the torch calls inside compiled code, at each call of that code, as the call log has those of uncompiled code.

Which calls there are is known from the run on fake tensors (`region_replay`): their functions, lines, shapes, what
requires grad. Their values are not; a second run (`second_run`) fills them in, if it was asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from types import FrameType
from typing import Any

import torch

from gradviz.recording.backward.gradients.gradient_watch import measuring
from gradviz.recording.calls.call_recorder import CallRecorder
from gradviz.recording.calls.known_tensors import KnownStorage, KnownTensor
from gradviz.recording.calls.rows import Row, RowUse
from gradviz.recording.compiled.call_inputs import sizes_of_call, traced_frame
from gradviz.recording.compiled.region_calls import compiled_node
from gradviz.recording.compiled.region_replay import CannotReplay, Replay, replayed
from gradviz.recording.compiled.run_log import LoggedCall, RunLog
from gradviz.recording.compiled.traced_nodes import ModuleCalls, module_at, source_path
from gradviz.recording.forward.forward_log import ForwardLog
from gradviz.recording.forward_watch import ForwardWatch
from gradviz.recording.frame_variables import local_variables
from gradviz.recording.torch_access.dynamo.dynamo_graphs import TracedGraph
from gradviz.recording.torch_access.nodes import peek_sequence_nr, sequence_nr_of
from gradviz.recording.torch_access.tensors import version_of

_KEY = "gradviz: the rows of the calls inside this compiled code"


def add_values(wrapper: Any, log: RunLog | None) -> None:
    """Give the rows of the calls inside the compiled code that made this node the values that a second run saw."""
    outer, rows = wrapper.metadata.get(_KEY, (None, ()))
    again = [call.row for call in log.calls] if log is not None else []
    if outer is None or [row.function for row in rows] != [row.function for row in again]:
        return
    for row, seen in zip(rows, again, strict=True):
        for use, its in zip((*row.inputs, *row.outputs), (*seen.inputs, *seen.outputs), strict=True):
            use.values = use.values or its.values
        row.result, row.results = seen.result, seen.results
    outer.has_values = True


class InnerCalls:
    """Logs them between `start` and `stop`."""

    def __init__(self, watch: ForwardWatch, calls: CallRecorder) -> None:
        self._watch, self._calls = watch, calls
        self._is_on = False
        self._outer: Row | None = None
        """The row of the compiled call to which calls were added last."""

    def start(self) -> None:
        """Log from now on."""
        self._is_on = True

    def stop(self) -> None:
        """Log nothing more."""
        self._is_on = False

    def around(self, traced: TracedGraph, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """What is to be called in place of `compiled`."""
        traced.logs_calls = True

        @wraps(compiled)
        def compiled_and_logged(*args: Any, **options: Any) -> Any:
            outer = self._watch.compiled_row
            if not self._is_on or outer is None or self._calls.writer.is_elsewhere() or not torch.is_grad_enabled():
                return compiled(*args, **options)
            call = None
            with self._calls.writer.shield():
                call = self._begun(traced, args, outer, sys._getframe(1))
            before = peek_sequence_nr()
            result = compiled(*args, **options)
            with self._calls.writer.shield():
                is_whole = call is not None and call.end(result, before)
                # A second part of the same call comes after a graph break, behind which code ran that nobody saw.
                outer.is_opened = is_whole and outer is not self._outer and not self._is_part(traced)
                self._outer = outer
            return result

        return compiled_and_logged

    def _begun(self, traced: TracedGraph, args: tuple[Any, ...], outer: Row, frame: FrameType) -> _InnerCall | None:
        if len(args) != len(traced.inputs):
            return None
        try:
            found = replayed(traced.with_sizes(sizes_of_call(traced, args)))
        except CannotReplay:  # the region is closed, and says so
            return None
        if found.log is None or not found.log.is_complete:
            return None
        modules = _module_calls(self._watch.log, _variables_of(traced, frame), outer.scope)
        call = _InnerCall(traced, found, found.log, outer, self._calls, modules, self._watch.stacks.below)
        call.begin(args)
        return call

    def _is_part(self, traced: TracedGraph) -> bool:
        """Whether a graph break stands before or behind it."""
        noted = self._watch.compilations
        if not 0 <= traced.compilation < len(noted):
            return True
        return noted[traced.compilation].is_rest or noted[traced.compilation].broken is not None


class _InnerCall:
    """One call of compiled code."""

    def __init__(
        self,
        traced: TracedGraph,
        found: Replay,
        log: RunLog,
        outer: Row,
        calls: CallRecorder,
        modules: ModuleCalls[int],
        stack_below: Callable[..., int],
    ) -> None:
        self._traced, self._found, self._log, self._outer = traced, found, log, outer
        self._writer, self._modules, self._stack_below = calls.writer, modules, stack_below
        self._tensors: dict[int, KnownTensor] = {}
        """By the ``id()`` of what is known of a tensor of the run on fake ones."""
        self._versions: dict[int, int] = {}
        """The same: by how much its version differs."""
        self._memory: dict[int, KnownStorage | None] = {}
        """The same for storages."""
        self._inputs: dict[int, RowUse] = {}
        """The tensors that it gets, as they are before it runs, until the row of their first use."""

    def begin(self, args: Sequence[Any]) -> None:
        """It is about to run."""
        with measuring():
            for of_run, tensor in self._pairs(self._found.tensors[0], args):
                use = self._writer.uses.use(tensor, "", self._outer, is_input=True)
                self._inputs[id(use.known)] = use
                self._put(of_run, use.known, use.version or 0)

    def _pairs(self, fakes: Sequence[Any], tensors: Sequence[Any]) -> Iterator[tuple[KnownTensor, torch.Tensor]]:
        for fake, tensor in zip(fakes, tensors, strict=True):
            if isinstance(fake, torch.Tensor) and isinstance(tensor, torch.Tensor):
                of_run = self._log.known(fake)
                if of_run is not None:
                    yield of_run, tensor

    def _put(self, of_run: KnownTensor, known: KnownTensor, version: int) -> None:
        self._tensors.setdefault(id(of_run), known)
        self._versions.setdefault(id(of_run), version)
        if of_run.storage is not None and known.storage is not None:
            self._memory.setdefault(id(of_run.storage), known.storage)

    def end(self, result: Any, before: int) -> bool:
        """It has returned: add its rows; False if it made other nodes than were expected."""
        node = compiled_node(self._traced, result) if self._traced.aot_ids else None
        made = self._found.last_nr - self._found.first_nr
        if not self._traced.aot_ids and peek_sequence_nr() - before != made:
            return False
        new = []
        with measuring():
            tensors = self._writer.uses.tensors
            for of_run, tensor in self._pairs(self._found.tensors[1], result):
                known = tensors.find(tensor)
                if known is None:
                    new.append(known := tensors.add(tensor))
                self._put(of_run, known, (version_of(tensor) or 0) - (of_run.values_of_version or 0))
        number = None if node is None else sequence_nr_of(node)
        rows = [self._row(call, number if self._traced.aot_ids else before) for call in self._log.calls]
        for known in new:
            known.first_row = known.producer = next(
                (row for row in rows if any(use.known is known for use in row.outputs)), self._outer
            )
        for row in rows:
            self._writer.add(row)
        self._outer.has_inner_rows = True
        if node is not None:
            node.metadata[_KEY] = self._outer, rows
        return True

    def _row(self, call: LoggedCall, number: int | None) -> Row:
        made = call.row
        row = Row(made.function, made.kind)
        row.scalars, row.result, row.results = made.scalars, made.result, made.results
        row.grad_mode, row.grad_mode_location, row.is_autocast = (
            made.grad_mode,
            made.grad_mode_location,
            made.is_autocast,
        )
        row.inside = self._outer.inside
        row.stack = self._stack_below(self._outer.stack, call.frames)
        row.scope = self._modules.scope_of(call.traced)
        if made.sequence_nr is not None and number is not None:
            offset = made.sequence_nr - self._found.first_nr
            row.node_count = made.node_count
            if self._traced.aot_ids:
                row.sequence_nr, row.inner_nr = number, offset + 1
            else:
                row.sequence_nr = number + offset
        row.inputs = [self._use(use, row, is_input=True) for use in made.inputs]
        row.outputs = [self._use(use, row, is_input=False) for use in made.outputs]
        return row

    def _use(self, of_run: RowUse, row: Row, *, is_input: bool) -> RowUse:
        key = id(of_run.known)
        known = self._tensors.get(key)
        if known is None:
            known = self._tensors[key] = of_run.known.likeness(self._storage_of(of_run.known))
            known.first_row = row
            if not is_input:
                known.producer = row
        version = None if of_run.version is None else max(0, of_run.version + self._versions.get(key, 0))
        use = RowUse(known, of_run.position, version, None)
        before = self._inputs.get(id(known))
        if before is None:
            use.requires_grad, use.is_leaf = of_run.requires_grad, of_run.is_leaf
        else:  # on fake tensors every input is a leaf
            use.requires_grad, use.is_leaf = of_run.requires_grad, of_run.is_leaf and before.is_leaf
            use.values, before.values = before.values if is_input else None, None
            if known.first_row is self._outer:
                known.first_row = row
        return use

    def _storage_of(self, of_run: KnownTensor) -> KnownStorage | None:
        if of_run.storage is None:
            return None
        return self._memory.setdefault(id(of_run.storage), of_run.storage.likeness())


def _module_calls(log: ForwardLog, variables: Mapping[str, Mapping[str, Any]], outermost: int) -> ModuleCalls[int]:
    """The module calls inside one call of compiled code, as they would be without compilation."""

    def enter(_: str, text: str, __: Any, parent: int) -> int:
        module = module_at(variables, source_path(text))
        return parent if module is None else log.new_scope(module, parent)

    return ModuleCalls(enter, outermost)


def _variables_of(traced: TracedGraph, frame: FrameType) -> Mapping[str, Mapping[str, Any]]:
    """Local and global variables of the code that Dynamo made, which calls what the backend compiled."""
    inside = traced_frame(traced, frame)
    return {"L": {}, "G": {}} if inside is None else {"L": local_variables(inside), "G": inside.f_globals}
