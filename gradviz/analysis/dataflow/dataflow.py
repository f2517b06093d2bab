"""Queries on a call log: what a tensor was computed from, what used it, where its gradient was cut off.

Every answer is a walk over a table of rows, without recursion; the indexes are built once, at first use. All of it is
near-linear in the number of calls.

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

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from heapq import heappop, heappush

from gradviz.analysis.dataflow.call_index import CallIndex
from gradviz.analysis.dataflow.cuts import TAKES_ONLY_THE_SHAPE, Cut, find_cuts
from gradviz.analysis.dataflow.values.calls_on_lists import CallsOnLists
from gradviz.analysis.dataflow.values.numbers_given_on import given_on
from gradviz.analysis.dataflow.values.outside_torch import Reentry, find_reentries
from gradviz.analysis.finding import SourceText
from gradviz.graph.call_log import Call, CallLog
from gradviz.graph.model import CallSite
from gradviz.graph.query.own_line import own_line


class Dataflow(CallIndex):
    """The calls of one log as a graph."""

    def __init__(self, log: CallLog, sources: SourceText | None = None) -> None:
        """The calls of a log, and the source of the program as far as it is known; by default, none of it."""
        super().__init__(log)
        self._sources = sources or {}

    # -- lines ---------------------------------------------------------------------------------------------------

    def line(self, call_site: int | None) -> CallSite | None:
        """The user's own line that led to a call site, or the site itself if there is none."""
        sites = self.log.call_sites
        return None if call_site is None else sites[own_line(sites, call_site)]

    def line_of(self, call: int) -> CallSite | None:
        """The user's own line that made the call."""
        return self.line(self.log.calls[call].call_site)

    # -- backward calls ------------------------------------------------------------------------------------------

    def roots(self) -> Iterator[tuple[int, int]]:
        """Every backward call of the program, with each tensor that it started from."""
        for number in self.rows_of_kind("backward"):
            call = self.log.calls[number]
            if call.inside is None:
                yield from ((number, use.tensor) for use in call.roots)

    def step_before(self, row: int) -> int:
        """The newest optimizer step before a call: tensors computed before it belong to an earlier step."""
        steps = self.rows_of_kind("step")
        index = bisect_left(steps, row)
        return steps[index - 1] if index else 0

    def backward_before(self, row: int) -> int | None:
        """The newest backward call before a call, also of another backward or a step."""
        backwards = self.rows_of_kind("backward")
        index = bisect_left(backwards, row)
        return backwards[index - 1] if index else None

    def has_step_after(self, row: int) -> bool:
        """Whether an optimizer steps later."""
        steps = self.rows_of_kind("step")
        return bool(steps) and steps[-1] > row

    # -- ancestors and descendants -------------------------------------------------------------------------------

    def ancestors(self, tensor: int, before: int | None = None, since: int = 0) -> tuple[int, ...]:
        """Calls that computed the tensor, in order. The walk stops at leaves.

        Args:
            before: take the tensor as the call with this number received it; by default, as it was at the end.
            since: leave out calls before this one.
        """
        return tuple(sorted({row for row, _ in self._upwards(tensor, before, since)}))

    def descendants(
        self, tensor: int, after: int | None = None, until: int | None = None, *, live: bool = False
    ) -> tuple[int, ...]:
        """Calls that used the tensor, or anything computed from it, in order.

        Args:
            after: only uses after the call with this number.
            until: leave out this call and all later ones.
            live: follow only tensors that require grad.
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
            for use in call.outputs if passes_on(call) else ():
                if use.tensor not in reached and (use.requires_grad or not live):
                    reached.add(use.tensor)
                    for user in self.users(use.tensor, row):
                        heappush(waiting, user)
        return tuple(found)

    def newest_data_assignment(self, tensor: int, before: int) -> int | None:
        """The newest ``tensor.data = ...`` before a call: it returns nothing, and changes no version."""
        rows = self.data_assignments.get(tensor, ())
        index = bisect_left(rows, before)
        return rows[index - 1] if index else None

    @cached_property
    def data_assignments(self) -> dict[int, list[int]]:
        """By tensor: the calls of ``tensor.data = ...``, in order."""
        rows: dict[int, list[int]] = defaultdict(list)
        for number, call in enumerate(self.log.calls):
            if call.function == "torch.Tensor.data.__set__" and call.inputs:
                rows[call.inputs[0].tensor].append(number)
        return dict(rows)

    def data_replacements(self, tensor: int) -> list[int]:
        """Of these, the ones that give it other memory: behind ``p.data += move`` Python assigns what was changed."""
        own, calls = self.sharing_memory(tensor), self.log.calls
        return [row for row in self.data_assignments.get(tensor, ()) if calls[row].inputs[-1].tensor not in own]

    # -- cuts ----------------------------------------------------------------------------------------------------

    @cached_property
    def lists(self) -> CallsOnLists:
        """Its calls on lists of tensors, one for each element."""
        return CallsOnLists(self.log.calls)

    @cached_property
    def cuts(self) -> tuple[Cut, ...]:
        """Every cut, in order."""
        return tuple(sorted([*find_cuts(self.log), *self._unregistered_parameters()], key=lambda cut: cut.call))

    @cached_property
    def parameters_of_results(self) -> frozenset[int]:
        """Parameters that were made of what the program had computed with a gradient."""
        return frozenset(made for cut in self.cuts if cut.kind == "parameter" for made in cut.dead_outputs)

    def _unregistered_parameters(self) -> Iterator[Cut]:
        """The cuts of ``nn.Parameter(computed)`` that no module holds, found at the first use of the parameter."""
        for row, reentries in self.reentries.items():
            for reentry in reentries if self.log.calls[row].kind != "register_parameter" else ():
                made = self.log.tensors[reentry.into]
                if reentry.certainty == "memory" and made.role == "parameter" and made.first_seen == row:
                    site = self.log.calls[row].call_site
                    yield Cut(row, "parameter", (reentry.tensor,), (reentry.into,), site)

    @cached_property
    def reentries(self) -> dict[int, tuple[Reentry, ...]]:
        """For each call, the values that left torch in earlier calls and came back into it.

        A guess is left out where no name in the source leads from there to here.
        """
        return given_on(find_reentries(self.log), self.log, self._sources)

    def cuts_reaching(
        self, tensor: int, before: int | None = None, since: int = 0, *, by_index: bool = True
    ) -> tuple[Cut, ...]:
        """The cuts through which a tensor's values came without a gradient, newest first.

        The walk stops at each cut. It follows values that left torch and came back if `reentries` contains them.

        Args:
            by_index: whether to follow those that only tell which elements are taken.
        """
        found: dict[int, Cut] = {}

        def go_on(row: int, given: int) -> bool:
            cut = self._cut_of_call.get(row)
            if cut is None or (cut.dead_outputs and given not in cut.dead_outputs):
                return True
            found[row] = cut
            return False

        for _ in self._upwards(tensor, before, since, go_on, by_index=by_index):
            pass
        return tuple(found[row] for row in sorted(found, reverse=True))

    def cuts_below(self, tensor: int, after: int | None = None, until: int | None = None) -> tuple[Cut, ...]:
        """The cuts at which results computed from a tensor lost their gradient, oldest first."""
        rows = self.descendants(tensor, after, until, live=True)
        reached = {tensor, *(use.tensor for row in rows for use in self.log.calls[row].outputs if use.requires_grad)}
        first, last = -1 if after is None else after, len(self.log.calls) if until is None else until
        found = {cut.call: cut for number in reached for cut in self._cuts_of_tensor.get(number, ())}
        return tuple(found[row] for row in sorted(found) if first < row < last)

    def _upwards(
        self,
        tensor: int,
        before: int | None,
        since: int,
        go_on: Callable[[int, int], bool] | None = None,
        *,
        by_index: bool = True,
    ) -> Iterator[tuple[int, int]]:
        """Calls above a tensor, each with the tensor that led to it; above a call only if `go_on`, where there is one,
        returns true, and through indices that had left torch only if `by_index`."""
        known: dict[int, int] = {}
        end = len(self.log.calls) if before is None else before
        waiting = [(row, tensor) for row in self.further_producers(tensor, end, known, since)]
        waiting += self._behind(tensor, before)
        seen = set(waiting)
        while waiting:
            row, given = waiting.pop()
            yield row, given
            if go_on is not None and not go_on(row, given):
                continue
            for step in self._above(row, given, known, since, by_index):
                if step[0] >= since and step not in seen:
                    seen.add(step)
                    waiting.append(step)

    def _above(self, row: int, given: int, known: dict[int, int], since: int, by_index: bool) -> list[tuple[int, int]]:
        call = self.lists.single(row, given)  # In a call on lists, each element goes its own way.
        steps: list[tuple[int, int]] = []
        for use in call.inputs if call.function not in TAKES_ONLY_THE_SHAPE else ():
            tensor = use.tensor
            if not use.is_live_leaf:
                steps += [(maker, tensor) for maker in self.further_producers(tensor, row, known, since)]
            if self.reentries:
                steps += self._behind(tensor, row)
        entries = self.reentries.get(row, ())
        steps += [(each.exit, each.tensor) for each in entries if by_index or not each.is_index]
        return steps

    def _behind(self, tensor: int, before: int | None) -> Iterator[tuple[int, int]]:
        """The exit call and the tensor from which the values of a tensor came, if no call made it."""
        if tensor not in self._producers or self.log.tensors[tensor].role == "parameter":
            for reentry in self.reentries_as(tensor, before):
                yield reentry.exit, reentry.tensor

    def reentries_as(self, tensor: int, before: int | None) -> Iterator[Reentry]:
        """Values that came into torch as this tensor when it was first seen, and that had left before a call."""
        first = self.log.tensors[tensor].first_seen
        for reentry in self.reentries.get(first, ()) if first is not None else ():
            if reentry.into == tensor and (before is None or reentry.exit < before):
                yield reentry

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


def passes_on(call: Call) -> bool:
    """Whether the results of a call are computed from its inputs."""
    return call.kind in _MAKE_TENSORS and call.function not in TAKES_ONLY_THE_SHAPE


_MAKE_TENSORS = frozenset({"operation", "custom", "compiled", "backward"})
