"""Logs the forward computation in the order of torch's sequence numbers.

Each torch call that made nodes is a *row*: the interval of sequence numbers it used, which function it was, and the
stack it was called from. A second series says from which sequence number on which module call was running. Rows are
kept in arrays, 24 bytes each. They are forgotten `KEPT_CALLS` backward calls later, so that days of training can pass
before the wanted call comes; a graph that is held for longer shows its oldest nodes without lines.
"""

from __future__ import annotations

import weakref
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from itertools import chain, count
from operator import attrgetter
from typing import Any, NamedTuple

import torch

from gradviz.graph.model import TensorFacts
from gradviz.recording.forward.copies import Copies
from gradviz.recording.forward.memory_parts import MemoryPart, memory_part_of
from gradviz.recording.run.line_attribution import CallFrame
from gradviz.recording.torch_access import own_thread
from gradviz.recording.torch_access.dynamo.dynamo_graphs import Sizes, TracedGraph


class Row(NamedTuple):
    """The torch call that made a node."""

    number: int
    last_sequence_nr: int
    function: Any
    stack: int


class Moved(NamedTuple):
    """How distributed tensors lie on the mesh of their ranks, before and after a call."""

    before: tuple[str, ...]
    """Only for calls that do nothing but change it."""
    after: tuple[str, ...]


class ScopeEntry(NamedTuple):
    """One call of one module."""

    module: int
    parent: int
    call: int


class CompiledCall(NamedTuple):
    """A call of code that was compiled from one traced graph, and that made nodes."""

    start: int
    """The next sequence number before it."""
    end: int
    """The same after it."""
    traced: TracedGraph
    constants: tuple[int | None, ...]
    """For each thing that it got, the index in `ForwardLog.constants` of a tensor without gradient."""
    function: str = ""
    """The function of the program that was compiled and called; empty for a module."""
    is_checkpointed: bool = False
    """Whether what it saved is computed again in backward."""
    sizes: Sizes | None = None
    """The sizes that it got, if they are not those of the call that the code was compiled for."""


NO_SCOPE = -1

CUSTOM_CALL = "autograd.Function.apply"
"""The function of the rows of custom functions."""

KEPT_CALLS = 100
"""What was computed this many backward calls ago is forgotten."""
MIN_ROWS = 4096
"""With fewer rows nothing is forgotten; with more, rows are forgotten when at least half of them can be."""


class ThreadLog:
    """The log of one thread: torch counts sequence numbers for each thread separately."""

    def __init__(self) -> None:
        self._starts = array("q")
        self._ends = array("q")
        self._functions = array("l")
        self._stacks = array("q")
        self._function_ids: dict[Any, int] = {}
        self._function_list: list[Any] = []
        self.row_constants: dict[int, tuple[int, ...]] = {}
        """Constants (indices in `ForwardLog.constants`) that a row's call received."""
        self.row_numbers: dict[int, int | float] = {}
        """The Python number that a row's arithmetic call received."""
        self.checkpointed_rows: set[int] = set()
        """Rows whose saved tensors are packed by non-reentrant checkpointing, to be computed again in backward."""
        self.uncompiled_rows: set[int] = set()
        """Rows of calls that ran uncompiled inside a compiled function, where nobody sees what they get."""
        self.inplace_rows: set[int] = set()
        """Rows of calls that change their input because of ``inplace=True``."""
        self.row_placements: dict[int, Moved] = {}
        """Rows of calls that returned distributed tensors, or made such a tensor an ordinary one."""
        self.compiled_calls: list[CompiledCall] = []
        """In order; those that were compiled before the recording began are missing."""
        self._first_parts: dict[int, int] = {}
        """For rows that are later parts of a call: its first row."""
        self._scope_starts = array("q")
        self._scope_ids = array("q")
        self.running_calls: list[CallFrame] = []
        self.tensor_hooks: dict[int, list[tuple[str, Any]]] = {}
        """Names and handles of hooks on the output of the node with this sequence number."""
        self._forgotten = 0
        """How many rows were forgotten: the numbers of the others do not change."""
        self._calls: deque[int] = deque(maxlen=KEPT_CALLS)
        """The next sequence number at the end of each of the last backward calls."""

    def add_row(self, start: int, end: int, function: Any, stack: int) -> int:
        """Note that `function`, called from `stack`, made the nodes ``start`` to ``end - 1``; returns the row."""
        try:
            function_id = self._function_ids.get(function)
        except TypeError:  # it cannot be hashed
            function_id = self._function_ids.get(id(function))
        if function_id is None:
            function_id = len(self._function_list)
            self._function_ids[function if isinstance(function, Hashable) else id(function)] = function_id
            self._function_list.append(function)
        self._starts.append(start)
        self._ends.append(end)
        self._functions.append(function_id)
        self._stacks.append(stack)
        return self._forgotten + len(self._starts) - 1

    def close_row(self, row: int, end: int) -> None:
        """Set the end of a row that was added before its nodes were made."""
        if row >= self._forgotten:
            self._ends[row - self._forgotten] = end

    def add_part(self, row: int, start: int) -> int:
        """The call of `row`, which ended before other calls, makes nodes again from `start` on; returns the new row."""
        function = self._function_list[self._functions[row - self._forgotten]]
        new = self.add_row(start, start, function, self._stacks[row - self._forgotten])
        self._first_parts[new] = self.first_part(row)
        return new

    def first_part(self, row: int) -> int:
        """The first row of the call that this row belongs to."""
        return self._first_parts.get(row, row)

    def compiled_call_of(self, sequence_nr: int) -> CompiledCall | None:
        """The call of compiled code that made the node with this number; None if it was not seen."""
        index = bisect_right(self.compiled_calls, sequence_nr, key=attrgetter("start")) - 1
        found = self.compiled_calls[index] if index >= 0 else None
        return found if found is not None and sequence_nr < found.end else None

    def enter_scope(self, sequence_nr: int, scope: int) -> None:
        """From `sequence_nr` on, nodes belong to the module call `scope`."""
        self._scope_starts.append(sequence_nr)
        self._scope_ids.append(scope)

    def row_of(self, sequence_nr: int) -> Row | None:
        """The call that made the node with this number; None if it was not seen."""
        return self.rows_of([sequence_nr])[0]

    def rows_of(self, sequence_nrs: Iterable[int]) -> list[Row | None]:
        """The calls that made the nodes with these numbers: a list, because one call of a function for each node would
        take as long as all else here."""
        starts, ends, functions, stacks = self._starts, self._ends, self._functions, self._stacks
        names, forgotten = self._function_list, self._forgotten
        found: list[Row | None] = []
        for sequence_nr in sequence_nrs:
            index = bisect_right(starts, sequence_nr) - 1
            if index < 0 or sequence_nr >= ends[index]:
                found.append(None)
            else:
                found.append(Row(forgotten + index, ends[index] - 1, names[functions[index]], stacks[index]))
        return found

    def scope_of(self, sequence_nr: int) -> int:
        """The module call in which the node with this number was made, or `NO_SCOPE`."""
        index = bisect_right(self._scope_starts, sequence_nr) - 1
        return self._scope_ids[index] if index >= 0 else NO_SCOPE

    @property
    def is_empty(self) -> bool:
        return not self._starts and not self._scope_starts

    def end_call(self, sequence_nr: int) -> bool:
        """A backward call has ended; True if older entries were forgotten."""
        self._calls.append(sequence_nr)
        if len(self._calls) < KEPT_CALLS or len(self._starts) + len(self._scope_starts) < MIN_ROWS:
            return False
        rows = bisect_left(self._starts, self._calls[0])
        # The module that was running then is still running.
        scopes = max(bisect_right(self._scope_starts, self._calls[0]) - 1, 0)
        if 2 * (rows + scopes) < len(self._starts) + len(self._scope_starts):
            return False
        self._forget(rows, scopes)
        return True

    def used_scopes(self) -> set[int]:
        """Module calls that nodes may belong to, without their callers."""
        return {*self._scope_ids, *(call.scope for call in self.running_calls)} - {NO_SCOPE}

    def used_constants(self) -> set[int]:
        """Constants that rows and compiled code received."""
        received = chain(self.row_constants.values(), (call.constants for call in self.compiled_calls))
        return {index for indices in received for index in indices if index is not None}

    def _forget(self, rows: int, scopes: int) -> None:
        oldest = self._calls[0]
        for column in (self._starts, self._ends, self._functions, self._stacks):
            del column[:rows]
        for column in (self._scope_starts, self._scope_ids):
            del column[:scopes]
        self._forgotten += rows
        self.row_constants = {row: found for row, found in self.row_constants.items() if row >= self._forgotten}
        self.row_numbers = {row: number for row, number in self.row_numbers.items() if row >= self._forgotten}
        self.checkpointed_rows = {row for row in self.checkpointed_rows if row >= self._forgotten}
        self.uncompiled_rows = {row for row in self.uncompiled_rows if row >= self._forgotten}
        self.inplace_rows = {row for row in self.inplace_rows if row >= self._forgotten}
        self.compiled_calls = [call for call in self.compiled_calls if call.end > oldest]
        self._first_parts = {row: first for row, first in self._first_parts.items() if row >= self._forgotten}
        self.row_placements = {row: moved for row, moved in self.row_placements.items() if row >= self._forgotten}
        self.tensor_hooks = {number: hooks for number, hooks in self.tensor_hooks.items() if number >= oldest}


class SeenConstant(NamedTuple):
    """A tensor that a torch call received and that requires no gradient."""

    tensor: Callable[[], torch.Tensor | None]
    facts: TensorFacts
    part: MemoryPart | None = None
    """Its memory; None if torch does not tell."""


class ForwardLog:
    """The logs of all threads, and what they share."""

    def __init__(self) -> None:
        self.threads: dict[int, ThreadLog] = {}
        self.scopes: dict[int, ScopeEntry] = {}
        self.modules: dict[int, tuple[Callable[[], torch.nn.Module | None], str]] = {}
        """Every module that ran: a weak reference and its class name."""
        self.modules_elsewhere: dict[int, None] = {}
        """Indices in `modules` of those that ran on other threads than the main one."""
        self._module_ids: dict[int, int] = {}
        self._call_counts: dict[int, int] = {}
        self.root_modules: dict[int, None] = {}
        """Modules that were called outside any other, in the order of their first call, and are alive."""
        self._living_modules: dict[int, None] = {}
        """Indices in `modules` of those that are alive, as far as anybody looked."""
        self.constants: dict[int, SeenConstant] = {}
        self.copies = Copies()
        self._constant_ids: dict[int, int] = {}
        self._next_module, self._next_scope, self._next_constant = count(), count(), count()

    @property
    def is_empty(self) -> bool:
        """True while no thread has computed anything."""
        return all(log.is_empty for log in self.threads.values())

    def of_thread(self, thread: int) -> ThreadLog:
        """The log of a thread, made at first use; what a thread of gradviz computes is logged for nobody."""
        log = self.threads.get(thread)
        if log is None:
            log = ThreadLog()
            if not own_thread.is_own(thread):
                self.threads[thread] = log
        return log

    def new_scope(self, module: torch.nn.Module, parent: int) -> int:
        """Register one more call of `module`."""
        # By id, because a module need not be hashable; an id may be used again after its module died.
        module_id = self._module_ids.get(id(module))
        if module_id is None or module_id not in self.modules or self.modules[module_id][0]() is not module:
            module_id = self._module_ids[id(module)] = next(self._next_module)
            self.modules[module_id] = weakref.ref(module), type(module).__name__
            self._living_modules[module_id] = None
            self._call_counts[module_id] = 0
        if parent == NO_SCOPE:
            self.root_modules[module_id] = None
        scope = next(self._next_scope)
        self.scopes[scope] = ScopeEntry(module_id, parent, self._call_counts[module_id])
        self._call_counts[module_id] += 1
        return scope

    def module_of(self, scope: int) -> torch.nn.Module | None:
        """The module of a call, while it is alive."""
        entry = self.scopes.get(scope)
        return self.modules[entry.module][0]() if entry is not None else None

    def called_modules(self) -> list[torch.nn.Module]:
        """Modules that ran outside any other and are still alive, in the order of their first call."""
        return self._alive(self.root_modules)

    def modules_that_ran(self) -> list[torch.nn.Module]:
        """All modules that ran and are still alive, also inside others."""
        return self._alive(self._living_modules)

    def _alive(self, indices: dict[int, None]) -> list[torch.nn.Module]:
        """The modules that are alive. Others are dropped: where each task copies a model, most of them are dead."""
        found = []
        for index in list(indices):
            module = self.modules[index][0]()
            if module is None:
                indices.pop(index, None)
            else:
                found.append(module)
        return found

    def constant(self, tensor: torch.Tensor, read_facts: Callable[[torch.Tensor], TensorFacts]) -> int:
        """Index of a tensor in `constants`; its facts are read when it is first seen."""
        known = self._constant_ids.get(id(tensor))
        # An id may be used again after its tensor died; the weak reference shows that.
        seen = self.constants.get(known) if known is not None else None
        if known is not None and seen is not None and seen.tensor() is tensor:
            return known
        index = self._constant_ids[id(tensor)] = next(self._next_constant)
        self.constants[index] = SeenConstant(weakref.ref(tensor), read_facts(tensor), memory_part_of(tensor))
        return index

    def release(self, tensor: torch.Tensor) -> None:
        """Drop the reference to this tensor; its facts are kept."""
        index = self._constant_ids.get(id(tensor))
        seen = self.constants.get(index) if index is not None else None
        if index is not None and seen is not None and seen.tensor() is tensor:
            self.constants[index] = seen._replace(tensor=_no_tensor)

    def release_all(self) -> None:
        """Drop the references to all tensors."""
        for index, seen in self.constants.items():
            self.constants[index] = seen._replace(tensor=_no_tensor, part=None)
        for log in list(self.threads.values()):
            log.compiled_calls.clear()
        self.copies.forget()
        self._constant_ids.clear()

    def end_call(self, log: ThreadLog, sequence_nr: int, other_scopes: Callable[[], set[int]] = set) -> None:
        """A backward call on the thread of `log` has ended: forget what can no longer be asked for.

        Args:
            other_scopes: returns module calls that something else refers to; called only if something is forgotten.
        """
        if log.end_call(sequence_nr):
            self._forget_scopes(other_scopes())
            self._forget_constants()

    def _forget_scopes(self, wanted: set[int]) -> None:
        used: set[int] = set()
        for scope in wanted.union(*(log.used_scopes() for log in list(self.threads.values()))):
            while scope != NO_SCOPE and scope not in used:
                used.add(scope)
                scope = self.scopes[scope].parent
        for scope in _older_entries(self.scopes):
            if scope not in used:
                del self.scopes[scope]
        running = {entry.module for entry in list(self.scopes.values())}
        for index in _older_entries(self.modules):
            if index not in running and self.modules[index][0]() is None:
                del self.modules[index], self._call_counts[index]
                self.root_modules.pop(index, None)
                self._living_modules.pop(index, None)
        _keep_known(self._module_ids, self.modules)

    def _forget_constants(self) -> None:
        used = {index for log in list(self.threads.values()) for index in log.used_constants()}
        for index in _older_entries(self.constants):
            if index not in used:
                del self.constants[index]
        _keep_known(self._constant_ids, self.constants)


def _no_tensor() -> None:
    return None


_NEWEST_KEPT = 64
"""This many of the newest entries of a table are kept: another thread may be about to use one."""


def _older_entries(table: dict[int, Any]) -> list[int]:
    return list(table)[:-_NEWEST_KEPT]


def _keep_known(indices: dict[int, int], table: dict[int, Any]) -> None:
    """Forget ids of objects whose entry in `table` was forgotten."""
    for key, index in list(indices.items()):
        if index not in table:
            del indices[key]
