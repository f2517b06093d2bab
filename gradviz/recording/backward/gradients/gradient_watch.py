"""Measures what one backward call sends along every edge, with a hook on every node of the walk.

Problems solved here:

* Where several gradients are summed, each is seen only at its sender and the sum only at the receiver. Elsewhere the
  tensor that arrives is the one that was sent, unless a hook replaced it. So little more than the sent gradients is
  measured, and every hook is noticed, whoever registered it.
* A node often passes on the very tensor that it received: it is measured once.
* Hooks and figures must not change the run: see `meter`. The hooks run without grad mode and modes, never raise into
  the program, and are removed when the call has ended, also if it raised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import get_ident
from time import perf_counter
from typing import Any

import torch

from gradviz.collector import SparedObjects, collector_paused
from gradviz.recording.backward.gradients.gradient_meter import GradientMeter
from gradviz.recording.backward.gradients.gradient_sums import GradientSums, Slot
from gradviz.recording.backward.gradients.node_clock import clock_if_needed
from gradviz.recording.run.recording_failures import Defects
from gradviz.recording.torch_access.modes import (
    DISABLE_DISPATCH_MODES,
    computes_forward_gradients,
    has_dispatch_modes,
    switch_gradients,
    without_forward_gradients,
)
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION
from gradviz.recording.walk.graph_walker import Walk

UNDEFINED = -1
"""Stands for the number of a gradient that autograd passed as None."""


@dataclass
class Flow:
    """The gradients and runs that were seen, by index of the node; gradients are numbers in the meter."""

    sent: dict[int, tuple[int, ...]] = field(default_factory=dict)
    arrived: dict[Slot, int] = field(default_factory=dict)
    before_hooks: dict[Slot, int] = field(default_factory=dict)
    """What arrived, before the hooks on the tensor; only if there are hooks."""
    runs: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Thread and seconds, in the order in which the nodes ran."""
    began: float = 0.0
    """When the call began, by `perf_counter`."""
    ends: list[float] = field(default_factory=list)
    """When each of these runs ended."""
    over: float = 0.0
    """When the call had ended."""
    repeats: Counter[int] = field(default_factory=Counter)
    """Further runs of nodes that ran several times; what they sent then is not kept."""


@dataclass(frozen=True)
class RunTimes:
    """When a backward call ran its nodes, by the clock of `perf_counter`."""

    began: float
    order: Mapping[int, int]
    """By index of the node: as which of all it ran."""
    ends: Sequence[float]
    """When each ended, in that order."""
    over: float
    """When the call had ended, and wrappers had waited for what they exchange."""


class GradientWatch:
    """Hooks on the nodes of a walk, between `start` and `stop`."""

    def __init__(
        self,
        walk: Walk,
        meter: GradientMeter,
        summed: Mapping[Slot, int],
        hooked: Iterable[Slot],
        views: frozenset[int] = frozenset(),
    ) -> None:
        """
        Args:
            summed: how many gradients are summed where several are.
            hooked: outputs with hooks of the program.
            views: nodes that pass on what they receive in another shape.
        """
        self.flow = Flow()
        self.defects = Defects()
        self._walk = walk
        self._meter = meter
        self._hooked = frozenset(hooked)
        self._views = views
        # Here the tensor that arrives may not hold what was sent.
        self._always_measured = self._hooked.union(summed)
        self.sums = GradientSums(
            {slot: number for slot, number in summed.items() if number > 2 or slot in self._hooked}
        )
        self._expected: dict[Slot, tuple[int, int]] = {}
        """What was last sent to a slot: ``id()`` of the tensor, which lives until it arrives, and its number."""
        self._handles: list[Any] = []
        self._threads: dict[int, int] = {}
        self._last_end: dict[int, float] = {}
        self._start_time = 0.0
        self._clock = clock_if_needed()
        self._spared = SparedObjects()

    def expect(self, slot: Slot, gradient: torch.Tensor) -> int:
        """The call starts with this gradient at this slot; returns its number."""
        with measuring():
            number = self._meter.take(gradient)
            if slot in self.sums.counts:
                self.sums.add(slot, None, gradient)
        self._expected[slot] = id(gradient), number
        return number

    def start(self, starts: Sequence[Any] = ()) -> None:
        """Put a hook on every node; `starts` are the gradients that the call starts from."""
        if self._clock is not None:
            self._clock.begin(starts)
        on_run = self._on_run  # one object for all: what there is for each node, the garbage collector looks through
        with collector_paused():
            for index, wrapper in enumerate(self._walk.wrappers):
                try:
                    self._handles.append(wrapper.register_hook(partial(on_run, index)))
                except Exception as defect:  # the other nodes can still be measured
                    self.defects.note(defect)
            self._spared.begin(len(self._handles))
        self._threads[get_ident()] = 0
        self._start_time = self.flow.began = perf_counter()

    def stop(self) -> None:
        """Remove all hooks; safe to call twice."""
        self.flow.over = self.flow.over or perf_counter()
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()
        self._spared.end()
        for slot, (_, number) in self._expected.items():
            # If gradients are only asked for, by autograd.grad, no node runs at which they arrive.
            if slot not in self._always_measured:
                self.flow.arrived.setdefault(slot, number)
        self._expected.clear()
        with measuring():
            self.sums.close_all()

    def _on_run(self, index: int, sent: Sequence[Any], received: Sequence[Any]) -> None:
        end = perf_counter()
        ident = get_ident()
        stream = None
        try:
            if self._clock is not None:
                stream = self._clock.end(index, (*sent, *received))
            thread = self._threads.get(ident)
            if thread is None:
                thread = self._threads.setdefault(ident, len(self._threads))
            seconds = end - self._last_end.get(ident, self._start_time)
            if index in self.flow.runs:
                self.flow.repeats[index] += 1
            else:
                self.flow.runs[index] = thread, seconds
                self.flow.ends.append(end)
                self._measure(index, sent, received)
        except Exception as defect:  # must not reach the program
            self.defects.note(defect)
        if self._clock is not None:
            with self.defects.caught():
                self._clock.resume(stream)
        self._last_end[ident] = perf_counter()

    def seconds_on_gpu(self) -> dict[int, float]:
        """By index of the node, for those whose work a GPU did. Ask when all figures have been read."""
        return {} if self._clock is None else self._clock.seconds()

    def _measure(self, index: int, sent: Sequence[Any], received: Sequence[Any]) -> None:
        if torch.is_grad_enabled() or has_dispatch_modes() or computes_forward_gradients():
            with measuring():
                self._take_all(index, sent, received)
        else:
            # The usual case, and ten times as fast.
            with DISABLE_TORCH_FUNCTION():
                self._take_all(index, sent, received)

    def _take_all(self, index: int, sent: Sequence[Any], received: Sequence[Any]) -> None:
        flow, take, expected, summed, views = (
            self.flow, self._meter.take, self._expected, self.sums.counts, self._views,
        )  # fmt: skip
        known: dict[int, int] = {}
        for output_nr, gradient in enumerate(received):
            slot = index, output_nr
            if gradient is None:
                flow.arrived[slot] = UNDEFINED
                continue
            identity, number = expected.pop(slot, _NOTHING_SENT)
            if slot in self._always_measured:
                self._note_before_hooks(slot, number)
                number = take(gradient)
            elif identity != id(gradient):
                number = take(gradient)
            flow.arrived[slot] = known[id(gradient)] = number
        numbers: list[int] = []
        for edge, gradient in zip(self._walk.edges[index], sent, strict=False):
            if gradient is None:
                number = UNDEFINED
            else:
                identity = id(gradient)
                if identity not in known:
                    known[identity] = self._take_view(gradient, received, known) if index in views else take(gradient)
                number = known[identity]
                if edge is not None:
                    slot = edge.target, edge.input_nr
                    expected[slot] = identity, number
                    if slot in summed:
                        self.sums.add(slot, (index, len(numbers)), gradient)
            numbers.append(number)
        flow.sent[index] = tuple(numbers)  # a list would stay with the garbage collector

    def _take_view(self, gradient: torch.Tensor, received: Sequence[Any], known: Mapping[int, int]) -> int:
        """Take what a view sends: mostly what it received, in another shape, which has the same figures."""
        whole = received[0] if len(received) == 1 else None
        return self._meter.take(gradient) if whole is None else self._meter.take_view(gradient, whole, known[id(whole)])

    def _note_before_hooks(self, slot: Slot, sent: int) -> None:
        """Note what arrived at an output that is summed or has hooks; `sent` is what was last sent there."""
        whole = self.sums.close(slot)
        if slot not in self._hooked:
            return
        if whole is not None:
            self.flow.before_hooks[slot] = self._meter.take(whole)
        elif slot not in self.sums.counts and sent != UNDEFINED:
            self.flow.before_hooks[slot] = sent


_NOTHING_SENT = (0, UNDEFINED)


class measuring:
    """Code inside makes no graph, and no mode or subclass of the program sees it.

    It is entered twice at every torch call of a logged program, so it only switches off what is on.
    """

    __slots__ = ("_entered", "_had_grad")

    def __enter__(self) -> None:
        self._entered = [DISABLE_TORCH_FUNCTION()]
        self._entered[0].__enter__()
        if has_dispatch_modes():
            self._enter(DISABLE_DISPATCH_MODES())
        if computes_forward_gradients():
            self._enter(without_forward_gradients())
        self._had_grad = torch.is_grad_enabled()
        if self._had_grad:
            switch_gradients(False)

    def _enter(self, each: Any) -> None:
        each.__enter__()
        self._entered.append(each)

    def __exit__(self, *error: object) -> None:
        if self._had_grad:
            switch_gradients(True)
        for each in reversed(self._entered):
            each.__exit__(*error)
