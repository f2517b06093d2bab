"""Which calls of a log made, used or changed a tensor, or made a node. Indexes are built at first use."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from operator import itemgetter

from gradviz.graph.call_log import Call, CallKind, CallLog, TensorUse, ValueFacts
from gradviz.graph.model import Node
from gradviz.graph.traversal import scopes_around


class CallIndex:
    """The calls of one log, found by tensor, storage, autograd node or module."""

    def __init__(self, log: CallLog) -> None:
        self.log = log

    def producers(self, tensor: int, before: int | None = None) -> tuple[int, ...]:
        """Calls that returned the tensor or changed it in place, oldest first, only those before the row `before`."""
        return _up_to(self._producers.get(tensor, []), before)

    def first_producer(self, tensor: int, before: int) -> int | None:
        """The first of `producers`."""
        rows = self._producers.get(tensor)
        return rows[0] if rows and rows[0] < before else None

    def is_made(self, tensor: int, before: int) -> bool:
        """Whether a call before `before` returned the tensor or changed it in place."""
        return self.first_producer(tensor, before) is not None

    def further_producers(self, tensor: int, before: int, known: dict[int, int], since: int = 0) -> list[int]:
        """Those of `producers`, from the row `since` on, that no earlier call with the same `known` returned.

        A buffer that each step writes and reads has n producers at n reads: a walk over all of them takes each once.
        """
        rows = self._producers.get(tensor, [])
        first, end = max(known.get(tensor, 0), bisect_left(rows, since)), bisect_left(rows, before)
        known[tensor] = max(first, end)
        return rows[first:end]

    def newest_producer(self, tensor: int, before: int) -> int | None:
        """The last call before `before` that returned the tensor or changed it in place, also through a view."""
        newest = _newest_up_to(self._producers.get(tensor, ()), before)
        changes = self._live_changes  # empty for most programs
        changed = _newest_up_to(changes.get(self.log.tensors[tensor].storage, ()), before) if changes else None
        return newest if changed is None or (newest is not None and newest > changed) else changed

    def makers(self, tensor: int, before: int, at_most: int) -> Iterator[tuple[int, Call]]:
        """The newest call that made the tensor, with its row; then the newest that made its first input; and so on."""
        for _ in range(at_most):
            made = self.producers(tensor, before)
            if not made:
                return
            before = made[-1]
            call = self.log.calls[before]
            yield before, call
            if not call.inputs:
                return
            tensor = call.inputs[0].tensor

    def makers_above(
        self, tensor: int, before: int, at_most: int, onward: Callable[[Call], Iterable[TensorUse]]
    ) -> Iterator[tuple[int, Call]]:
        """The same along all inputs of a call that `onward` names, each call once."""
        waiting, seen = [(tensor, before)], set[int]()
        while waiting and len(seen) < at_most:
            tensor, before = waiting.pop()
            row = self.newest_producer(tensor, before)
            if row is not None and row not in seen:
                seen.add(row)
                call = self.log.calls[row]
                yield row, call
                waiting += [(use.tensor, row) for use in onward(call)]

    def users_below(
        self, tensor: int, after: int, at_most: int, onward: Callable[[Call], bool]
    ) -> Iterator[tuple[int, int, Call]]:
        """The calls that used the tensor after a row, each with the tensor that it took and its row; then those that
        used the first result of the calls that `onward` accepts; and so on."""
        waiting, seen = [(tensor, after)], set[int]()
        while waiting and len(seen) <= at_most:
            tensor, after = waiting.pop()
            for row in self.users(tensor, after):
                call = self.log.calls[row]
                yield tensor, row, call
                if row not in seen and call.outputs and onward(call):
                    seen.add(row)
                    waiting.append((call.outputs[0].tensor, row))

    def users(self, tensor: int, after: int | None = None) -> tuple[int, ...]:
        """Calls that used the tensor, oldest first, only those after the row `after`."""
        rows = self._users.get(tensor, [])
        return tuple(rows if after is None else rows[bisect_right(rows, after) :])

    def sharing_memory(self, tensor: int) -> tuple[int, ...]:
        """Tensors in the same storage, itself included."""
        storage = self.log.tensors[tensor].storage
        return (tensor,) if storage is None else tuple(self._by_storage[storage])

    def memory_of(self, tensor: int) -> int:
        """See `CallLog.memory_of`."""
        return self.log.memory_of(tensor)

    def rows_inside(self, scope: int) -> Sequence[int]:
        """Every call inside of a call of a module, and of those that it called, oldest first."""
        return self._rows_inside.get(scope, ())

    @cached_property
    def _rows_inside(self) -> dict[int, list[int]]:
        rows: dict[int, list[int]] = defaultdict(list)
        for number, call in enumerate(self.log.calls):
            for scope in scopes_around(self.log.scopes, call.scope):
                rows[scope].append(number)
        return dict(rows)

    def rows_of_kind(self, kind: CallKind) -> tuple[int, ...]:
        """Every call of one kind, oldest first."""
        return self._by_kind.get(kind, ())

    def next_of_kind(self, kind: CallKind, row: int) -> int:
        """The first call of a kind behind a row; the end of the log if there is none."""
        rows = self.rows_of_kind(kind)
        following = bisect_right(rows, row)
        return rows[following] if following < len(rows) else len(self.log.calls)

    def rows_of_function(self, function: str) -> tuple[int, ...]:
        """Every call of a function, by its whole name, oldest first."""
        return self._by_function.get(function, ())

    @property
    def functions(self) -> Iterable[str]:
        """The functions that were called, by their whole names."""
        return self._by_function

    def call_of_node(self, node: Node) -> int | None:
        """The call that made an autograd node; None if no call did, or if it is a leaf."""
        if node.sequence_nr is None:
            return None
        inner = self._by_inner_node.get(node.key or (0, 0)) if node.inner_nr else None
        if inner is not None:
            return inner
        starts, rows = self._by_node
        index = bisect_right(starts, node.sequence_nr) - 1
        if index < 0:
            return None
        return rows[index] if node.sequence_nr < starts[index] + self.log.calls[rows[index]].node_count else None

    def inside(self, row: int) -> tuple[int, ...]:
        """Calls that ran directly inside of another one."""
        return tuple(self._inside.get(row, ()))

    def is_by_program(self, call: Call) -> bool:
        """Whether the program itself made the call, perhaps in the closure of an optimizer's step."""
        return call.inside is None or self.log.calls[call.inside].kind == "step"

    def row_of_backward(self, number: int) -> int | None:
        """The row of a backward call (`BackwardCall.number`)."""
        return self._backward_rows.get(str(number))

    def site_of_module(self, path: str) -> int | None:
        """The call site where the module with this path was made, if it is one of torch's own classes."""
        row = self.row_of_module(path)
        is_of_torch = row is not None and self.log.calls[row].function.startswith("torch.nn.")
        return self.log.calls[row].call_site if row is not None and is_of_torch else None

    def row_of_module(self, path: str) -> int | None:
        """The row in which the constructor of the module with this path started."""
        return self._module_rows.get(path)

    def changes(self, tensor: int, first: int, last: int) -> tuple[int, ...]:
        """Calls after `first` and before `last` that changed the memory of the tensor, also through a view."""
        found = set[int]()
        for shared in self.sharing_memory(tensor):
            rows = self._changes.get(shared, [])
            found.update(rows[bisect_right(rows, first) : bisect_left(rows, last)])
        return tuple(sorted(found))

    def values_of(self, use: TensorUse, row: int) -> ValueFacts | None:
        """Values of an input of the call `row`: read at that call, or before; None if they were never read."""
        return use.values or self.values(use.tensor, row)

    def values(self, tensor: int, at: int) -> ValueFacts | None:
        """Values of the tensor when the call `at` received it; None if they were never read."""
        read = self._values_read.get(tensor, [])
        index = bisect_right(read, _moment_of_inputs(at), key=itemgetter(0))
        return read[index - 1][1] if index else None

    # -- indexes -------------------------------------------------------------------------------------------------

    @cached_property
    def _producers(self) -> dict[int, list[int]]:
        rows: dict[int, list[int]] = defaultdict(list)
        for number, call in enumerate(self.log.calls):
            for tensor in dict.fromkeys(use.tensor for use in call.outputs):
                if not self._is_inner_result(call, tensor):
                    rows[tensor].append(number)
        return dict(rows)

    def _is_inner_result(self, call: Call, tensor: int) -> bool:
        """True if the custom function around the call returned the tensor: then that function made it."""
        around = None if call.inside is None else self.log.calls[call.inside]
        return around is not None and around.kind == "custom" and any(use.tensor == tensor for use in around.outputs)

    @cached_property
    def _by_kind(self) -> dict[CallKind, tuple[int, ...]]:
        rows: dict[CallKind, list[int]] = defaultdict(list)
        for number, call in enumerate(self.log.calls):
            rows[call.kind].append(number)
        return {kind: tuple(of_kind) for kind, of_kind in rows.items()}

    @cached_property
    def _by_function(self) -> dict[str, tuple[int, ...]]:
        rows: dict[str, list[int]] = defaultdict(list)
        for number, call in enumerate(self.log.calls):
            rows[call.function].append(number)
        return {function: tuple(of_function) for function, of_function in rows.items()}

    @cached_property
    def _backward_rows(self) -> dict[str | None, int]:
        return {self.log.calls[row].name: row for row in reversed(self.rows_of_kind("backward"))}

    @cached_property
    def _module_rows(self) -> dict[str | None, int]:
        return {self.log.calls[row].name: row for row in self.rows_of_kind("make_module")}

    @cached_property
    def _users(self) -> dict[int, list[int]]:
        return _index(call.inputs for call in self.log.calls)

    @cached_property
    def _values_read(self) -> dict[int, list[tuple[int, ValueFacts]]]:
        """By tensor: each reading of its values with its time, oldest first."""
        read: dict[int, list[tuple[int, ValueFacts]]] = defaultdict(list)
        for row, call in enumerate(self.log.calls):
            moment = _moment_of_inputs(row)
            for use in call.inputs:
                if use.values is not None:
                    read[use.tensor].append((moment, use.values))
            for use in call.outputs:
                if use.values is not None:
                    read[use.tensor].append((moment + 1, use.values))
        return dict(read)

    @cached_property
    def _inside(self) -> dict[int, list[int]]:
        rows: dict[int, list[int]] = defaultdict(list)
        for number, call in enumerate(self.log.calls):
            if call.inside is not None:
                rows[call.inside].append(number)
        return dict(rows)

    @cached_property
    def _changes(self) -> dict[int, list[int]]:
        return _index(call.changed for call in self.log.calls)

    @cached_property
    def rows_that_change(self) -> tuple[int, ...]:
        """Every call that changed a tensor in place, oldest first."""
        return tuple(sorted({row for rows in self._changes.values() for row in rows}))

    @cached_property
    def _live_changes(self) -> dict[int | None, list[int]]:
        """By storage: calls that wrote a tensor with a history into it, or wrote into a tensor that has one."""
        rows: dict[int | None, list[int]] = defaultdict(list)
        for number, call in enumerate(self.log.calls):
            for use in call.changed if call.node_count else ():
                storage = self.log.tensors[use.tensor].storage
                if use.has_grad_fn and storage is not None:
                    rows[storage].append(number)
        return dict(rows)

    @cached_property
    def _by_storage(self) -> dict[int, list[int]]:
        members: dict[int, list[int]] = defaultdict(list)
        for number, tensor in enumerate(self.log.tensors):
            if tensor.storage is not None:
                members[tensor.storage].append(number)
        return dict(members)

    @cached_property
    def _by_node(self) -> tuple[list[int], list[int]]:
        made = sorted(
            (call.sequence_nr, number)
            for number, call in enumerate(self.log.calls)
            if call.sequence_nr is not None and call.node_count and not call.inner_nr
        )
        return [start for start, _ in made], [number for _, number in made]

    @cached_property
    def _by_inner_node(self) -> dict[tuple[int, int], int]:
        """Calls inside compiled code, by the nodes that they made."""
        return {key: number for number, call in enumerate(self.log.calls) if call.inner_nr for key in call.node_keys}


def _moment_of_inputs(row: int) -> int:
    """The time at which a call received its inputs; the time of its outputs is one more."""
    return 2 * row


def _up_to(rows: list[int], before: int | None) -> tuple[int, ...]:
    return tuple(rows if before is None else rows[: bisect_left(rows, before)])


def _newest_up_to(rows: Sequence[int], before: int) -> int | None:
    index = bisect_left(rows, before)
    return rows[index - 1] if index else None


def _index(uses: Iterable[Iterable[TensorUse]]) -> dict[int, list[int]]:
    """By tensor: the rows in which it is used."""
    rows: dict[int, list[int]] = defaultdict(list)
    for number, of_call in enumerate(uses):
        for tensor in dict.fromkeys(use.tensor for use in of_call):
            rows[tensor].append(number)
    return dict(rows)
