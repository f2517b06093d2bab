"""Measures what one backward call sends along every edge, with a hook on every node that was walked.

Problems solved here:

* Where several gradients are summed, each is only seen at its sender and the sum only at the receiver. Elsewhere what
  arrives is the very tensor that was sent, unless a hook put another in its place; so little more than what is sent is
  measured, and every hook is found, whoever put it there.
* A node often hands on the very tensor that it received: that is measured once.
* No hook and no figure may change the run: see `gradient_meter`. Hooks run without grad mode and modes, fail in silence
  as far as the program can tell, and are gone when the call is over, also when it raised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import get_ident
from time import perf_counter
from typing import Any

import torch

from gradviz.recording.backward.gradients.gradient_sums import Joins, Slot
from gradviz.recording.backward.gradients.meter import GradientMeter
from gradviz.recording.backward.gradients.node_clock import clock_if_needed
from gradviz.recording.run.recording_failures import Defects
from gradviz.recording.torch_access.modes import (
    DISABLE_DISPATCH_MODES,
    computes_forward_gradients,
    has_dispatch_modes,
    without_forward_gradients,
)
from gradviz.recording.torch_access.tensors import DISABLE_TORCH_FUNCTION
from gradviz.recording.walk.graph_walker import Walk, without_collector

UNDEFINED = -1
"""In place of a gradient's number: autograd sent None."""


@dataclass
class Flow:
    """What was seen, by place of the node; gradients are numbers that the meter knows."""

    sent: dict[int, list[int]] = field(default_factory=dict)
    arrived: dict[Slot, int] = field(default_factory=dict)
    before_hooks: dict[Slot, int] = field(default_factory=dict)
    """What arrived, before the hooks on the tensor; only where there are some."""
    runs: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Thread and seconds, in the order in which the nodes ran."""
    repeats: Counter[int] = field(default_factory=Counter)
    """Further runs of nodes that ran several times; what they sent then is not kept."""


class GradientWatch:
    """Hooks on the nodes of a walk, between `start` and `stop`."""

    def __init__(self, walk: Walk, meter: GradientMeter, senders: Mapping[Slot, int], hooked: Iterable[Slot]) -> None:
        """`senders`: how many gradients are summed at each output; `hooked`: the outputs with hooks of the program."""
        self.flow = Flow()
        self.defects = Defects()
        self._walk = walk
        self._meter = meter
        self._hooked = frozenset(hooked)
        summed = {slot: number for slot, number in senders.items() if number > 1}
        # Where the tensor that arrives may not hold what was sent.
        self._always_measured = self._hooked.union(summed)
        self.joins = Joins({slot: number for slot, number in summed.items() if number > 2 or slot in self._hooked})
        self._expected: dict[Slot, tuple[int, int]] = {}
        """What was sent to a slot, last: ``id()`` of the tensor, which lives until it arrives, and its number."""
        self._handles: list[Any] = []
        self._threads: dict[int, int] = {}
        self._last_end: dict[int, float] = {}
        self._start_time = 0.0
        self._clock = clock_if_needed()

    def expect(self, slot: Slot, gradient: torch.Tensor) -> int:
        """The call starts with this gradient at this slot; its number."""
        with measuring():
            number = self._meter.take(gradient)
            if slot in self.joins.counts:
                self.joins.add(slot, None, gradient)
        self._expected[slot] = id(gradient), number
        return number

    def start(self, starts: Sequence[Any] = ()) -> None:
        """Put a hook on every node; `starts` are the gradients that the call starts from."""
        if self._clock is not None:
            self._clock.begin(starts)
        with without_collector():
            for place, wrapper in enumerate(self._walk.wrappers):
                try:
                    self._handles.append(wrapper.register_hook(partial(self._on_run, place)))
                except Exception as defect:  # one node must not cost the others
                    self.defects.note(defect)
        self._threads[get_ident()] = 0
        self._start_time = perf_counter()

    def stop(self) -> None:
        """Take all hooks off again; safe to call twice."""
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()
        for slot, (_, number) in self._expected.items():
            # Where gradients are only asked for, by autograd.grad, no node runs that could tell what arrived.
            if slot not in self._always_measured:
                self.flow.arrived.setdefault(slot, number)
        self._expected.clear()
        with measuring():
            self.joins.close_all()

    def _on_run(self, place: int, sent: Sequence[Any], received: Sequence[Any]) -> None:
        end = perf_counter()
        ident = get_ident()
        stream = None
        try:
            if self._clock is not None:
                stream = self._clock.end(place, (*sent, *received))
            thread = self._threads.setdefault(ident, len(self._threads))
            seconds = end - self._last_end.get(ident, self._start_time)
            if place in self.flow.runs:
                self.flow.repeats[place] += 1
            else:
                self.flow.runs[place] = thread, seconds
                self._measure(place, sent, received)
        except Exception as defect:  # whatever it is, it must not reach the program
            self.defects.note(defect)
        if self._clock is not None:
            with self.defects.caught():
                self._clock.resume(stream)
        self._last_end[ident] = perf_counter()

    def seconds_on_gpu(self) -> dict[int, float]:
        """By place of the node, for those whose work a GPU did. To be asked when all figures were read."""
        return {} if self._clock is None else self._clock.seconds()

    def _measure(self, place: int, sent: Sequence[Any], received: Sequence[Any]) -> None:
        if torch.is_grad_enabled() or has_dispatch_modes() or computes_forward_gradients():
            with measuring():
                self._take_all(place, sent, received)
        else:
            # The usual case, ten times as cheap.
            with DISABLE_TORCH_FUNCTION():
                self._take_all(place, sent, received)

    def _take_all(self, place: int, sent: Sequence[Any], received: Sequence[Any]) -> None:
        flow, take, expected, summed = self.flow, self._meter.take, self._expected, self.joins.counts
        known: dict[int, int] = {}
        for output_nr, gradient in enumerate(received):
            slot = place, output_nr
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
        for edge, gradient in zip(self._walk.edges[place], sent, strict=False):
            if gradient is None:
                number = UNDEFINED
            else:
                identity = id(gradient)
                if identity not in known:
                    known[identity] = take(gradient)
                number = known[identity]
                if edge is not None:
                    slot = edge.target, edge.input_nr
                    expected[slot] = identity, number
                    if slot in summed:
                        self.joins.add(slot, (place, len(numbers)), gradient)
            numbers.append(number)
        flow.sent[place] = numbers

    def _note_before_hooks(self, slot: Slot, sent: int) -> None:
        """Of an output that is summed, or that has hooks; `sent` is what was sent there last."""
        whole = self.joins.close(slot)
        if slot not in self._hooked:
            return
        if whole is not None:
            self.flow.before_hooks[slot] = self._meter.take(whole)
        elif slot not in self.joins.counts and sent != UNDEFINED:
            self.flow.before_hooks[slot] = sent


_NOTHING_SENT = (0, UNDEFINED)


@contextmanager
def measuring() -> Iterator[None]:
    """No graph is made of what is done inside, and no mode or subclass of the program sees it."""
    with (
        DISABLE_TORCH_FUNCTION(),
        DISABLE_DISPATCH_MODES(),
        torch.no_grad(),
        without_forward_gradients(),
    ):
        yield
