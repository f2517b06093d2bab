"""The clock of nodes on a GPU, with stand-ins for CUDA's events and streams: none of this has run on a GPU."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from gradviz.recording.backward.gradients.node_clock import NodeClock, clock_if_needed


@dataclass(eq=False)
class _Stream:
    """Counts the milliseconds of work that was queued for it."""

    queued: float = 0.0


@dataclass
class _Event:
    waits: list[_Event]
    at: float | None = None
    is_over: bool = True

    def record(self, stream: _Stream) -> None:
        self.at = stream.queued

    def query(self) -> bool:
        return self.is_over

    def synchronize(self) -> None:
        self.waits.append(self)
        self.is_over = True

    def elapsed_time(self, end: _Event) -> float:
        assert self.at is not None
        assert end.at is not None
        assert end.is_over, "torch refuses to tell the time of an event that has not come"
        return end.at - self.at


@dataclass(eq=False)
class _GPU:
    """Streams that are current, one at a time, and a clock that sees the processor's tensors as this GPU's."""

    current: _Stream
    waits: list[_Event] = field(default_factory=list)
    are_events_over: bool = True

    def clock(self) -> NodeClock:
        return NodeClock(
            lambda: _Event(self.waits, is_over=self.are_events_over), lambda _: self.current, device_type="cpu"
        )


_HERE = (torch.zeros(1),)


def test_a_node_takes_as_long_as_what_it_queued_without_what_we_queued_behind_it() -> None:
    gpu = _GPU(_Stream())
    clock = gpu.clock()
    clock.begin(_HERE)

    for place, work in ((7, 3.0), (4, 5.0)):
        gpu.current.queued += work
        stream = clock.end(place, _HERE)
        gpu.current.queued += 100.0  # our own measuring
        clock.resume(stream)

    assert clock.seconds() == {7: 0.003, 4: 0.005}
    assert not gpu.waits


def test_each_stream_has_its_own_time_and_its_first_node_none() -> None:
    first, second = _Stream(), _Stream(queued=50.0)
    gpu = _GPU(first)
    clock = gpu.clock()
    clock.begin(_HERE)
    for place, stream in ((0, first), (1, second), (2, second), (3, first)):
        gpu.current = stream
        stream.queued += 1.0 + place
        clock.resume(clock.end(place, _HERE))

    assert clock.seconds() == {0: 0.001, 2: 0.003, 3: 0.004}


def test_only_the_first_run_of_a_node_counts() -> None:
    gpu = _GPU(_Stream())
    clock = gpu.clock()
    clock.begin(_HERE)
    for work in (2.0, 9.0):
        gpu.current.queued += work
        clock.resume(clock.end(0, _HERE))

    assert clock.seconds() == {0: 0.002}


def test_nothing_is_queued_for_nodes_of_other_devices() -> None:
    gpu = _GPU(_Stream())
    clock = gpu.clock()
    elsewhere = (None, torch.zeros(1, device="meta"))

    assert clock.begin(elsewhere) is None
    assert clock.end(0, elsewhere) is None
    clock.resume(None)
    assert clock.seconds() == {}


def test_events_are_waited_for_only_when_times_are_asked_for() -> None:
    gpu = _GPU(_Stream(), are_events_over=False)
    clock = gpu.clock()
    clock.begin(_HERE)
    gpu.current.queued += 2.0
    clock.resume(clock.end(0, _HERE))

    assert not gpu.waits
    assert clock.seconds() == {0: 0.002}
    assert len(gpu.waits) == 1


def test_there_is_no_clock_where_the_program_does_not_use_cuda() -> None:
    assert torch.cuda.is_initialized() or clock_if_needed() is None  # type: ignore[no-untyped-call]
