"""Graphs of earlier steps that are still alive, what holds them, and since which line.

At some moments of a run the recorder noted which tensors with a history were alive. Each one keeps the graph above it.
Graphs are identified by the step in which a backward first went through them; those without a backward, by what they
have in common. So a training without a leak has the graphs of one step at every moment, and one with a leak has more
and more.

All indexes are tables over the calls of the log, built in one pass each.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain

from msgspec import Struct

from gradviz.analysis.dataflow.dataflow import Dataflow
from gradviz.graph.call_log import Call, Holder

MIN_GRAPHS = 4
"""Fewer may be what one step leaves in variables."""
MIN_IN_CONTAINER = 3
"""The same for what a list or dict holds: three steps in a row have added to it."""


_THREE = 3
_SOON = 0.25
"""Of the calls between the two moments before."""


class Retained(Struct, frozen=True):
    """Graphs with the same kind of holder."""

    maker: int
    """The call that made the newest tensor that holds one."""
    backward: int | None
    """The first backward that went through the newest of the graphs; None if none did."""
    holder: Holder | None
    """What holds that tensor; None if only a ``.grad`` leads to it."""
    graphs: int
    tensors: tuple[int, ...]
    moment: int
    """The call after which they were counted."""
    carried: int | None = None
    """The call that made what is carried from step to step with its graph, and that the newest was computed from; None
    if the newest is carried itself, or nothing is."""


class RetainedGraphs:
    """What was alive at the moment with the most graphs, if their number grows."""

    def __init__(self, flow: Dataflow) -> None:
        self._flow = flow
        self._log = flow.log

    @cached_property
    def groups(self) -> tuple[Retained, ...]:
        """By the line that made their holder, the one with the most graphs first."""
        moment = self._worst_moment()
        if moment is None:
            return ()
        lines: dict[object, list[int]] = defaultdict(list)
        for tensor in self._old(moment):
            if self._log.tensors[tensor].holder is not None or self._hangs_on_grad(tensor, moment):
                is_held = self._log.tensors[tensor].holder is not None
                lines[is_held, self._log.calls[self._maker(tensor, moment)].call_site].append(tensor)
        found = [each for tensors in lines.values() if self._are_many(each := self._retained(tensors, moment))]
        held = {self._log.calls[each.maker].call_site for each in found if each.carried is None}
        told = dict[int | None, Retained]()  # What is computed from the same state holds the same graphs.
        for each in sorted(found, key=lambda each: -each.graphs):
            site = None if each.carried is None else self._log.calls[each.carried].call_site
            if site not in held:
                told.setdefault(each.maker if site is None else site, each)
        return tuple(told.values())

    def _are_many(self, retained: Retained) -> bool:
        is_kept = any(self._is_in_container(tensor) for tensor in retained.tensors)
        return retained.graphs >= (MIN_IN_CONTAINER if is_kept else MIN_GRAPHS)

    def _worst_moment(self) -> int | None:
        """The moment with the most graphs of earlier steps; None if their number does not grow."""
        counts = {moment: self._graphs(self._old(moment), moment) for moment in self._log.moments}
        most = max(counts.values(), default=0)
        moments = [moment for moment, count in counts.items() if count == most]
        is_grown = len(moments) == 1 or self._are_one_at_the_end(moments)
        return moments[0] if most >= MIN_IN_CONTAINER and is_grown else None

    def _are_one_at_the_end(self, moments: list[int]) -> bool:
        """Whether two moments are the last ones, and the program ended soon after the first of them."""
        if len(self._log.moments) < _THREE or moments != list(self._log.moments[-2:]):
            return False
        before, first, last = self._log.moments[-_THREE:]
        return last - first < _SOON * (first - before)

    def _retained(self, tensors: list[int], moment: int) -> Retained:
        newest = max(tensors, key=lambda tensor: (self._is_in_container(tensor), self._maker(tensor, moment)))
        maker = self._maker(newest, moment)
        holder = self._log.tensors[newest].holder
        first, graphs = self._first.get(maker), self._graphs(tensors, moment)
        return Retained(maker, first, holder, graphs, tuple(tensors), moment, self._carried_into(maker))

    def _is_in_container(self, tensor: int) -> bool:
        """Whether a container holds it. The newest is often in a variable too, which the next step overwrites."""
        holder = self._log.tensors[tensor].holder
        return holder is not None and not holder.path.isidentifier()

    # -- which tensors -------------------------------------------------------------------------------------------

    def _old(self, moment: int) -> list[int]:
        """Tensors that were alive then, and that no later backward goes through; also those that later backwards go
        through, if several steps have made their graph longer."""
        return [
            tensor
            for tensor, maker in self._makers(moment)
            if maker >= 0
            and ((self._last.get(maker) or -1) <= moment or self._steps_carried[maker][0] >= MIN_GRAPHS)
            and not self._is_leaf_in_use(tensor, moment)
            and not self._is_candidate(maker)
        ]

    def _makers(self, moment: int) -> Iterator[tuple[int, int]]:
        for tensor, known in enumerate(self._log.tensors):
            if known.alive_after is not None and known.alive_after >= moment:
                yield tensor, self._maker(tensor, moment)

    def _maker(self, tensor: int, moment: int) -> int:
        """The last call of the graph above a tensor; for an input, a call that used it. -1 if there was none by
        then."""
        maker = self._flow.newest_producer(tensor, moment + 1)
        if maker is not None and any(use.has_grad_fn for use in self._log.calls[maker].outputs if use.tensor == tensor):
            return maker
        users = [row for row in self._flow.users(tensor)[:_FEW] if row <= moment and row in self._first]
        return users[0] if users else -1

    def _is_candidate(self, maker: int) -> bool:
        """Whether a call made one of several results of a line from which the next backward, before any step, starts,
        or something that they were computed from: a program may compute some losses, and choose one of them."""
        index = bisect_left(self._backwards, maker)
        if maker in self._first or index == len(self._backwards):
            return False
        backward, call = self._backwards[index], self._log.calls[maker]
        if bisect_left(self._step_ends, maker) != bisect_left(self._step_ends, backward):
            return False
        roots = (self._flow.newest_producer(use.tensor, backward) for use in self._log.calls[backward].roots)
        sites = {self._log.calls[row].call_site for row in roots if row is not None}
        below = (self._flow.descendants(use.tensor, maker, backward, live=True) for use in call.outputs)
        return any(self._log.calls[row].call_site in sites for row in chain([maker], *below))

    def _is_leaf_in_use(self, tensor: int, moment: int) -> bool:
        known = self._log.tensors[tensor]
        return known.requires_grad and known.is_leaf and bool(self._flow.users(tensor, after=moment))

    def _hangs_on_grad(self, tensor: int, moment: int) -> bool:
        """Whether the first backward through its graph left the graphs of gradients in ``.grad``."""
        backward = self._first.get(self._maker(tensor, moment))
        return backward is not None and makes_a_cycle(self._log.calls[backward])

    # -- what is carried -----------------------------------------------------------------------------------------

    @cached_property
    def _steps_carried(self) -> list[tuple[int, int | None]]:
        """By call: from how many steps of optimizers one after the other its graph was carried over, and which of the
        calls that made its inputs is on that way."""
        found: list[tuple[int, int | None]] = []
        before = self._flow.step_before
        for row, makers in enumerate(self._inputs_of):
            ways = ((found[maker][0] + (before(maker) < before(row)), maker) for maker in makers)
            found.append(max(ways, default=(0, None)))
        return found

    def _carried_into(self, maker: int) -> int | None:
        """What several steps have carried on with its graph, if another line made it."""
        steps, above = self._steps_carried[maker]
        row = maker
        while steps >= MIN_GRAPHS and above is not None:
            if self._flow.step_before(above) < self._flow.step_before(row):
                calls = self._log.calls
                return above if calls[above].call_site != calls[maker].call_site else None
            row, above = above, self._steps_carried[above][1]
        return None

    # -- counting graphs -----------------------------------------------------------------------------------------

    def _graphs(self, tensors: Iterable[int], moment: int) -> int:
        """The number of steps whose graphs these tensors hold, plus the graphs that no backward went through."""
        makers = {self._maker(tensor, moment) for tensor in tensors}
        steps = 0
        for maker in makers:
            steps |= self._above[maker]
        return steps.bit_count() + self._apart(maker for maker in makers if not self._above[maker])

    def _apart(self, makers: Iterable[int]) -> int:
        """How many graphs without a backward have nothing in common, or in how many steps one was made that each of
        them made longer, as a running average does.

        What is only computed from the results of several, such as their mean, is no further graph, and does not make
        them one.
        """
        owners: dict[int, int] = {}
        apart, steps = 0, set[int]()
        for maker in sorted(makers):
            waiting, is_new = [maker], True
            while waiting:
                row = waiting.pop()
                is_new = is_new and owners.get(row, maker) == maker
                if row not in owners:
                    owners[row] = maker
                    steps.add(bisect_left(self._step_ends, row))
                    waiting += self._inputs_of[row]
            apart += is_new
        return max(apart, len(steps))

    @cached_property
    def _backwards(self) -> list[int]:
        calls = self._log.calls
        return [row for row in self._flow.rows_of_kind("backward") if calls[row].raised is None]

    @cached_property
    def _first(self) -> dict[int, int]:
        """By call: the first backward that went through it."""
        return self._marked(self._backwards)

    @cached_property
    def _last(self) -> dict[int, int]:
        """By call: the last backward that went through it."""
        return self._marked(reversed(self._backwards))

    def _marked(self, backwards: Iterable[int]) -> dict[int, int]:
        first_found: dict[int, int] = {}
        for backward in backwards:
            waiting = list(self._inputs_of[backward])
            while waiting:
                row = waiting.pop()
                if row not in first_found:
                    first_found[row] = backward
                    waiting += self._inputs_of[row]
        return first_found

    @cached_property
    def _inputs_of(self) -> list[tuple[int, ...]]:
        """By call: the calls that made its inputs with a gradient."""
        newest = self._flow.newest_producer
        return [
            tuple({above for use in call.inputs if use.has_grad_fn and (above := newest(use.tensor, row)) is not None})
            for row, call in enumerate(self._log.calls)
        ]

    @cached_property
    def _above(self) -> list[int]:
        """By call: the steps in which a backward first went through something above it, one bit for each."""
        numbers = {backward: 1 << number for backward, number in self._step_numbers()}
        found: list[int] = []
        for row in range(len(self._log.calls)):
            own = numbers[self._first[row]] if row in self._first else 0
            for above in self._inputs_of[row]:
                own |= found[above]
            found.append(own)
        return found

    def _step_numbers(self) -> Iterator[tuple[int, int]]:
        """Backwards and their steps. All backwards before an optimizer's step belong to it; without optimizers, each
        backward counts as a step, with those before it whose gradients have a graph, as inner steps do."""
        return ((backward, bisect_left(self._step_ends, backward)) for backward in self._backwards)

    @cached_property
    def _step_ends(self) -> Sequence[int]:
        ends = [row for row in self._backwards if not self._log.calls[row].scalars.get("create_graph")]
        return self._flow.rows_of_kind("step") or ends or self._backwards


_FEW = 50


def makes_a_cycle(backward: Call) -> bool:
    """True for ``backward(create_graph=True)``: the gradients that it leaves in ``.grad`` hold the graph."""
    return backward.function.endswith(".backward") and bool(backward.scalars.get("create_graph"))
