"""What happened while the program computed forward, in the order of torch's sequence numbers.

Each torch call that made nodes is a *row*: the interval of sequence numbers it used, which function it was, and the
stack it was called from. Which module was running is a second series: from this sequence number on, that call.
Rows are kept in arrays, 24 bytes each, so that hours of training can pass before the wanted backward comes.
"""

from __future__ import annotations

import weakref
from array import array
from bisect import bisect_right
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import torch

from gradviz.graph.model import TensorFacts
from gradviz.recording.stacks import CallFrame


class Row(NamedTuple):
    """The torch call that made a node."""

    place: int
    last_sequence_nr: int
    function: Any
    stack: int


class ScopeEntry(NamedTuple):
    """One call of one module."""

    module: int
    parent: int
    call: int


NO_SCOPE = -1


class ThreadLog:
    """The log of one thread: torch counts sequence numbers for each thread on its own."""

    def __init__(self) -> None:
        self._starts = array("q")
        self._ends = array("q")
        self._functions = array("l")
        self._stacks = array("q")
        self._function_ids: dict[Any, int] = {}
        self._function_list: list[Any] = []
        self.row_constants: dict[int, tuple[int, ...]] = {}
        """Constants (places in `ForwardLog.constants`) that a row's call received."""
        self.checkpointed_rows: set[int] = set()
        """Rows whose saved tensors non-reentrant checkpointing packs, to compute them again in backward."""
        self.inplace_rows: set[int] = set()
        """Rows of calls that were told to change their input, by ``inplace=True``."""
        self._scope_starts = array("q")
        self._scope_ids = array("q")
        self.running_calls: list[CallFrame] = []
        self.tensor_hooks: dict[int, list[tuple[str, Any]]] = {}
        """Names and handles of hooks that were put on the output of the node with this sequence number."""

    def add_row(self, start: int, end: int, function: Any, stack: int) -> int:
        """Note that `function`, called from `stack`, made the nodes ``start`` to ``end - 1``; returns the row."""
        key = function if isinstance(function, Hashable) else id(function)
        function_id = self._function_ids.get(key)
        if function_id is None:
            function_id = self._function_ids[key] = len(self._function_list)
            self._function_list.append(function)
        self._starts.append(start)
        self._ends.append(end)
        self._functions.append(function_id)
        self._stacks.append(stack)
        return len(self._starts) - 1

    def close_row(self, row: int, end: int) -> None:
        """Set the end of a row that was added before its nodes were made."""
        self._ends[row] = end

    def enter_scope(self, sequence_nr: int, scope: int) -> None:
        """From `sequence_nr` on, nodes belong to the module call `scope`."""
        self._scope_starts.append(sequence_nr)
        self._scope_ids.append(scope)

    def row_of(self, sequence_nr: int) -> Row | None:
        """The call that made the node with this number, or None where nobody saw it."""
        index = bisect_right(self._starts, sequence_nr) - 1
        if index < 0 or sequence_nr >= self._ends[index]:
            return None
        return Row(index, self._ends[index] - 1, self._function_list[self._functions[index]], self._stacks[index])

    def scope_of(self, sequence_nr: int) -> int:
        """The module call in which the node with this number was made, or `NO_SCOPE`."""
        index = bisect_right(self._scope_starts, sequence_nr) - 1
        return self._scope_ids[index] if index >= 0 else NO_SCOPE

    @property
    def is_empty(self) -> bool:
        return not self._starts and not self._scope_starts


class SeenConstant(NamedTuple):
    """A tensor that a torch call received and that needs no gradient."""

    tensor: Callable[[], torch.Tensor | None]
    facts: TensorFacts


class ForwardLog:
    """The logs of all threads, and what they share."""

    def __init__(self) -> None:
        self.threads: dict[int, ThreadLog] = {}
        self.scopes: list[ScopeEntry] = []
        self.modules: list[tuple[Callable[[], torch.nn.Module | None], str]] = []
        """Every module that ran: a weak reference and its class name."""
        self._module_ids: dict[int, int] = {}
        self._call_counts: list[int] = []
        self.root_modules: dict[int, None] = {}
        """Modules that were called outside any other, in the order of their first call."""
        self.constants: list[SeenConstant] = []
        self._constant_ids: dict[int, int] = {}

    @property
    def is_empty(self) -> bool:
        """True while no thread has computed anything."""
        return all(log.is_empty for log in self.threads.values())

    def of_thread(self, thread: int) -> ThreadLog:
        """The log of a thread, made at first use."""
        log = self.threads.get(thread)
        if log is None:
            log = self.threads[thread] = ThreadLog()
        return log

    def new_scope(self, module: torch.nn.Module, parent: int) -> int:
        """Register one more call of `module`."""
        # By id, as a module need not be hashable; an id is used again after its module died.
        module_id = self._module_ids.get(id(module))
        if module_id is None or self.modules[module_id][0]() is not module:
            module_id = self._module_ids[id(module)] = len(self.modules)
            self.modules.append((weakref.ref(module), type(module).__name__))
            self._call_counts.append(0)
        if parent == NO_SCOPE:
            self.root_modules[module_id] = None
        self.scopes.append(ScopeEntry(module_id, parent, self._call_counts[module_id]))
        self._call_counts[module_id] += 1
        return len(self.scopes) - 1

    def called_modules(self) -> list[torch.nn.Module]:
        """Modules that ran outside any other and are still there, in the order of their first call."""
        return [module for place in self.root_modules if (module := self.modules[place][0]()) is not None]

    def constant(self, tensor: torch.Tensor, read_facts: Callable[[torch.Tensor], TensorFacts]) -> int:
        """Place of a tensor in `constants`; its facts are read at first sight."""
        known = self._constant_ids.get(id(tensor))
        # An id is used again after its tensor died; the weak reference tells.
        if known is not None and self.constants[known].tensor() is tensor:
            return known
        self.constants.append(SeenConstant(weakref.ref(tensor), read_facts(tensor)))
        self._constant_ids[id(tensor)] = len(self.constants) - 1
        return len(self.constants) - 1
