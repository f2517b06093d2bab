"""Questions to a call log: what a tensor was computed from, what became of it, where its gradient was cut off.

Every answer is found by walking a table of rows, never recursively; the indexes are made once, at first use. All of it
is near-linear in the number of calls.

>>> from gradviz.graph.call_log import Call, CallLog, LoggedTensor, TensorUse
>>> from gradviz.graph.tensor_facts import TensorFacts
>>> tensors = [LoggedTensor(TensorFacts((), "float32")) for _ in range(3)]
>>> def use(tensor, place="0", live=False): return TensorUse(tensor, place, 0, live, tensor == 0)
>>> double = Call("torch.Tensor.mul", inputs=(use(0, live=True),), outputs=(use(1, "return", live=True),))
>>> detach = Call("torch.Tensor.detach", inputs=(use(1, live=True),), outputs=(use(2, "return"),))
>>> flow = Dataflow(CallLog((double, detach), tuple(tensors)))
>>> flow.ancestors(2)
(0, 1)
>>> [flow.log.calls[cut.call].function for cut in flow.cuts_reaching(2)]
['torch.Tensor.detach']
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from heapq import heappop, heappush
from operator import itemgetter

from gradviz.analysis.cuts import TAKES_ONLY_THE_SHAPE, Cut, find_cuts
from gradviz.analysis.reentries import Reentry, find_reentries
from gradviz.graph.call_log import Call, CallLog, TensorUse, ValueFacts
from gradviz.graph.model import CallSite


class Dataflow:
    """The calls of one log, with indexes from tensors, storages and autograd nodes to them."""

    def __init__(self, log: CallLog) -> None:
        self.log = log

    # -- which calls ---------------------------------------------------------------------------------------------

    def producers(self, tensor: int, before: int | None = None) -> tuple[int, ...]:
        """Calls that gave the tensor or changed it in place, oldest first; `before` leaves out that call and later."""
        return _up_to(self._producers.get(tensor, []), before)

    def newest_producer(self, tensor: int, before: int) -> int | None:
        """The last call before `before` that gave the tensor or changed it in place, through whatever view of it."""
        rows = _newest_up_to(self._producers.get(tensor, []), before)
        storage = self.log.tensors[tensor].storage
        if storage is not None:
            rows += _newest_up_to(self._live_changes.get(storage, []), before)
        return max(rows, default=None)

    def users(self, tensor: int, after: int | None = None) -> tuple[int, ...]:
        """Calls that took the tensor, oldest first; `after` leaves out that call and earlier ones."""
        rows = self._users.get(tensor, [])
        return tuple(rows if after is None else rows[bisect_right(rows, after) :])

    def sharing_memory(self, tensor: int) -> tuple[int, ...]:
        """Tensors that lie in the same storage, itself included."""
        storage = self.log.tensors[tensor].storage
        return (tensor,) if storage is None else tuple(self._by_storage[storage])

    def call_of_node(self, sequence_nr: int) -> int | None:
        """The call that made the autograd node with this number (`Node.sequence_nr`)."""
        starts, rows = self._by_node
        place = bisect_right(starts, sequence_nr) - 1
        if place < 0:
            return None
        call = self.log.calls[rows[place]]
        is_inside = sequence_nr < (call.sequence_nr or 0) + call.node_count
        return rows[place] if is_inside else None

    def inside(self, row: int) -> tuple[int, ...]:
        """Calls that ran directly inside of another one."""
        return tuple(self._inside.get(row, ()))

    def row_of_backward(self, number: int) -> int | None:
        """The row of a backward call (`BackwardCall.number`)."""
        return self._backward_rows.get(str(number))

    def site_of_module(self, path: str) -> int | None:
        """The call site where the module with this path was made, if it is one of torch's own classes."""
        return self._module_sites.get(path)

    def changes(self, tensor: int, first: int, last: int) -> tuple[int, ...]:
        """Calls after `first` and before `last` that changed the memory of the tensor, through whatever view of it."""
        rows = {row for shared in self.sharing_memory(tensor) for row in self._changes.get(shared, [])}
        return tuple(sorted(row for row in rows if first < row < last))

    def values_of(self, use: TensorUse, row: int) -> ValueFacts | None:
        """Values of what the call `row` took: read then, or before; None where nobody read them."""
        return use.values or self.values(use.tensor, row)

    def values(self, tensor: int, at: int) -> ValueFacts | None:
        """Values of the tensor when the call `at` received it; None where nobody read them."""
        read = self._values_read.get(tensor, [])
        place = bisect_right(read, _moment_of_inputs(at), key=itemgetter(0))
        return read[place - 1][1] if place else None

    # -- lines ---------------------------------------------------------------------------------------------------

    def line(self, call_site: int | None) -> CallSite | None:
        """The reader's own line from which a call site was reached, or the site itself where there is none."""
        sites = self.log.call_sites
        site = call_site
        while site is not None and sites[site].is_library:
            site = sites[site].caller
        found = site if site is not None else call_site
        return None if found is None else sites[found]

    def line_of(self, call: int) -> CallSite | None:
        """The reader's own line that made the call."""
        return self.line(self.log.calls[call].call_site)

    # -- backward calls ------------------------------------------------------------------------------------------

    def roots(self) -> Iterator[tuple[int, int]]:
        """Every backward call of the program, with each tensor that it started from."""
        for number, call in enumerate(self.log.calls):
            if call.kind == "backward" and call.inside is None:
                yield from ((number, use.tensor) for use in call.inputs if use.place.startswith("root"))

    def step_before(self, row: int) -> int:
        """The newest optimizer step before a call: what was computed before that belongs to an earlier step."""
        place = bisect_left(self._steps, row)
        return self._steps[place - 1] if place else 0

    def has_step_after(self, row: int) -> bool:
        """Whether an optimizer takes a step later on."""
        return bool(self._steps) and self._steps[-1] > row

    @cached_property
    def hook_registrations(self) -> tuple[tuple[int, Call], ...]:
        """Calls of ``register_hook``, with their numbers."""
        return tuple(each for each in enumerate(self.log.calls) if each[1].function == "torch.Tensor.register_hook")

    @cached_property
    def _steps(self) -> list[int]:
        return [number for number, call in enumerate(self.log.calls) if call.kind == "step"]

    # -- what it was computed from, and what from it -------------------------------------------------------------

    def ancestors(self, tensor: int, before: int | None = None, since: int = 0) -> tuple[int, ...]:
        """Calls that the tensor was computed by, in order; leaves are not looked behind.

        Args:
            before: the tensor as the call with this number received it; without it, as it was last.
            since: calls before this one are left out.
        """
        return tuple(sorted({row for row, _ in self._upwards(tensor, before, since, lambda row, given: True)}))

    def descendants(
        self, tensor: int, after: int | None = None, until: int | None = None, *, live: bool = False
    ) -> tuple[int, ...]:
        """Calls that used the tensor, or anything computed from it, in order.

        Args:
            after: only uses after the call with this number.
            until: calls from this one on are left out.
            live: only as far as gradients go.
        """
        end = len(self.log.calls) if until is None else until
        reached = {tensor}
        found: list[int] = []
        waiting = list(self.users(tensor, after))
        while waiting:
            row = heappop(waiting)
            if row >= end:
                break
            if found and found[-1] == row:
                continue
            call = self.log.calls[row]
            if not any(use.tensor in reached and (use.requires_grad or not live) for use in call.inputs):
                continue
            found.append(row)
            hands_on = call.kind in _MAKE_TENSORS and call.function not in TAKES_ONLY_THE_SHAPE
            for use in call.outputs if hands_on else ():
                if use.tensor not in reached and (use.requires_grad or not live):
                    reached.add(use.tensor)
                    for user in self.users(use.tensor, row):
                        heappush(waiting, user)
        return tuple(found)

    def leaf_names_above(self, tensor: int, before: int | None = None, since: int = 0) -> tuple[str, ...]:
        """Names of the leaves that required grad and that a tensor was computed from."""
        rows = self.ancestors(tensor, before, since)
        leaves = {use.tensor for row in rows for use in self.log.calls[row].inputs if _is_live_leaf(use)}
        return tuple(names[0] for leaf in sorted(leaves) if (names := self.log.tensors[leaf].names))

    # -- cuts ----------------------------------------------------------------------------------------------------

    @cached_property
    def cuts(self) -> tuple[Cut, ...]:
        """Every cut, in order."""
        return tuple(sorted([*find_cuts(self.log), *self._unregistered_parameters()], key=lambda cut: cut.call))

    def _unregistered_parameters(self) -> Iterator[Cut]:
        """``nn.Parameter(computed)`` that no module got: it shows where it is used first."""
        for row, reentries in self.reentries.items():
            for reentry in reentries if self.log.calls[row].kind != "register_parameter" else ():
                if reentry.certainty == "memory" and self.log.tensors[reentry.into].role == "parameter":
                    site = self.log.calls[row].call_site
                    yield Cut(row, "parameter", (reentry.tensor,), (reentry.into,), site)

    @cached_property
    def reentries(self) -> dict[int, tuple[Reentry, ...]]:
        """By call: values that came into it from calls where they had left torch."""
        return find_reentries(self.log)

    def cuts_reaching(self, tensor: int, before: int | None = None, since: int = 0) -> tuple[Cut, ...]:
        """The cuts through which a tensor's values came without a gradient, newest first.

        Above a cut is not looked for others. Values that left torch and came back are followed where `reentries`
        can tell.
        """
        found: dict[int, Cut] = {}

        def go_on(row: int, given: int) -> bool:
            cut = self._cut_of_call.get(row)
            if cut is None or (cut.dead_outputs and given not in cut.dead_outputs):
                return True
            found[row] = cut
            return False

        for _ in self._upwards(tensor, before, since, go_on):
            pass
        return tuple(found[row] for row in sorted(found, reverse=True))

    def cuts_below(self, tensor: int, after: int | None = None, until: int | None = None) -> tuple[Cut, ...]:
        """The cuts at which what was computed from a tensor lost its gradient, oldest first."""
        rows = self.descendants(tensor, after, until, live=True)
        reached = {tensor, *(use.tensor for row in rows for use in self.log.calls[row].outputs if use.requires_grad)}
        first, last = -1 if after is None else after, len(self.log.calls) if until is None else until
        found = {cut.call: cut for number in reached for cut in self._cuts_of_tensor.get(number, ())}
        return tuple(found[row] for row in sorted(found) if first < row < last)

    def _upwards(
        self, tensor: int, before: int | None, since: int, go_on: Callable[[int, int], bool]
    ) -> Iterator[tuple[int, int]]:
        """Calls above a tensor, each with the tensor that led there; `go_on` says whether to look behind one."""
        waiting = [(row, tensor) for row in self.producers(tensor, before) if row >= since]
        waiting += self._behind(tensor, before)
        seen = set(waiting)
        while waiting:
            row, given = waiting.pop()
            yield row, given
            if not go_on(row, given):
                continue
            for step in self._above(row):
                if step[0] >= since and step not in seen:
                    seen.add(step)
                    waiting.append(step)

    def _above(self, row: int) -> Iterator[tuple[int, int]]:
        call = self.log.calls[row]
        for use in call.inputs if call.function not in TAKES_ONLY_THE_SHAPE else ():
            if not _is_live_leaf(use):
                yield from ((maker, use.tensor) for maker in self.producers(use.tensor, row))
            yield from self._behind(use.tensor, row)
        yield from ((reentry.exit, reentry.tensor) for reentry in self.reentries.get(row, ()))

    def _behind(self, tensor: int, before: int | None) -> Iterator[tuple[int, int]]:
        """For a tensor that no call made: where the memory that it lies in came from."""
        if tensor not in self._producers or self.log.tensors[tensor].role == "parameter":
            first = self.log.tensors[tensor].first_seen
            for reentry in self.reentries.get(first, ()) if first is not None else ():
                if reentry.into == tensor and (before is None or reentry.exit < before):
                    yield reentry.exit, reentry.tensor

    # -- indexes -------------------------------------------------------------------------------------------------

    @cached_property
    def _cut_of_call(self) -> dict[int, Cut]:
        return {cut.call: cut for cut in self.cuts}

    @cached_property
    def _cuts_of_tensor(self) -> dict[int, list[Cut]]:
        cuts: dict[int, list[Cut]] = defaultdict(list)
        for cut in self.cuts:
            for tensor in cut.live_inputs:
                cuts[tensor].append(cut)
        return dict(cuts)

    @cached_property
    def _producers(self) -> dict[int, list[int]]:
        rows: dict[int, list[int]] = defaultdict(list)
        for number, call in enumerate(self.log.calls):
            for tensor in dict.fromkeys(use.tensor for use in call.outputs):
                if not self._is_inner_result(call, tensor):
                    rows[tensor].append(number)
        return dict(rows)

    def _is_inner_result(self, call: Call, tensor: int) -> bool:
        """True where the custom function around the call gave the tensor back: then that is what made it."""
        around = None if call.inside is None else self.log.calls[call.inside]
        return around is not None and around.kind == "custom" and any(use.tensor == tensor for use in around.outputs)

    @cached_property
    def _backward_rows(self) -> dict[str | None, int]:
        rows = [row for row, call in enumerate(self.log.calls) if call.kind == "backward"]
        return {self.log.calls[row].name: row for row in reversed(rows)}

    @cached_property
    def _module_sites(self) -> dict[str | None, int | None]:
        made = [call for call in self.log.calls if call.kind == "make_module"]
        return {call.name: call.call_site for call in made if call.function.startswith("torch.nn.")}

    @cached_property
    def _users(self) -> dict[int, list[int]]:
        return _index(call.inputs for call in self.log.calls)

    @cached_property
    def _values_read(self) -> dict[int, list[tuple[int, ValueFacts]]]:
        """By tensor: its values each time that they were read, with the moment, oldest first."""
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
    def _live_changes(self) -> dict[int, list[int]]:
        """By storage: calls that wrote into it something that a gradient goes to, or into a tensor that has one."""
        rows: dict[int, list[int]] = defaultdict(list)
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
            if call.sequence_nr is not None and call.node_count
        )
        return [start for start, _ in made], [number for _, number in made]


_MAKE_TENSORS = frozenset({"operation", "custom", "compiled", "backward"})


def _is_live_leaf(use: TensorUse) -> bool:
    return use.requires_grad and use.is_leaf


def _moment_of_inputs(row: int) -> int:
    """Its outputs come one later."""
    return 2 * row


def _up_to(rows: list[int], before: int | None) -> tuple[int, ...]:
    return tuple(rows if before is None else rows[: bisect_left(rows, before)])


def _newest_up_to(rows: list[int], before: int) -> list[int]:
    place = bisect_left(rows, before)
    return rows[place - 1 : place] if place else []


def _index(uses: Iterable[Iterable[TensorUse]]) -> dict[int, list[int]]:
    """By tensor: the rows in which it is used."""
    rows: dict[int, list[int]] = defaultdict(list)
    for number, of_call in enumerate(uses):
        for tensor in dict.fromkeys(use.tensor for use in of_call):
            rows[tensor].append(number)
    return dict(rows)
