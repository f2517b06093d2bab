"""A recording that waits for hours, or records every step and keeps one, needs no more memory than one of minutes."""

# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import pytest
import torch
from torch import nn

import gradviz
from gradviz.graph.invariants import check_call_log
from gradviz.recording.calls.rows import Rows


@pytest.fixture
def soon_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows older than three backward calls are forgotten, and a log of 20 rows is long."""
    monkeypatch.setattr("gradviz.recording.forward.forward_log.KEPT_CALLS", 3)
    monkeypatch.setattr("gradviz.recording.walk.capture_builder.KEPT_CALLS", 3)
    monkeypatch.setattr("gradviz.recording.forward.forward_log.MIN_ROWS", 20)


@pytest.fixture
def few_objects() -> Iterator[None]:
    """What exists before is not looked through for garbage: these tests ask for that many times, and torch alone is
    hundreds of thousands of objects."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


def step(model: nn.Module) -> None:
    # A module and a constant of this step alone, as loops make them.
    loss = nn.MSELoss()(model(torch.ones(2, 3)), torch.zeros(2, 1))
    loss.backward()


def blocks_after(steps: int, model: nn.Module) -> int:
    """Small objects alive after so many more steps; a table that doubles its size is one, however large."""
    for _ in range(steps):
        step(model)
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.usefixtures("few_objects", "soon_forgotten")
@pytest.mark.parametrize(("backward", "steps"), [(10**9, 300), ("last", 80)])
def test_memory_does_not_grow_with_the_steps(backward: int | Literal["last"], steps: int) -> None:
    model = Net()
    with gradviz.record(backward=backward):
        # Tables of tensors are swept now and then: what is kept between sweeps is the lowest of several readings.
        early, late = (min(blocks_after(steps, model) for _ in range(3)) for _ in range(2))
    # If the rows of these steps were kept, it would be more than 7,000.
    assert late - early < 2_000


@pytest.mark.usefixtures("few_objects", "soon_forgotten")
def test_with_every_call_logged_it_does_not_grow_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradviz.recording.calls.row_writer.Rows", partial(Rows, 200))
    monkeypatch.setattr("gradviz.recording.backward.kept_graphs.RECENT_GRAPHS", 3)
    monkeypatch.setattr("gradviz.recording.calls.known_tensors._SWEEP_AFTER", 100)
    model = Net()
    with gradviz.record(calls=True) as recording:
        blocks_after(200, model)
        # Tables of tensors are swept now and then: what is kept between sweeps is the lowest of several readings.
        early, late = (min(blocks_after(40, model) for _ in range(5)) for _ in range(2))
    # Over 6,000 steps these readings go up and down by up to 4,500, and come back to the first. If the rows of these
    # 200 steps were kept, it would be 34,000.
    assert late - early < 10_000
    log = recording.capture.calls
    assert log is not None
    check_call_log(log)
    places = {call.scope for call in log.calls if call.function.endswith(".linear")}
    assert {log.scopes[place].path for place in places if place is not None} == {"model.first", "model.second"}


def described(graph: gradviz.Graph) -> list[Any]:
    return [
        (
            node.name,
            node.forward_call,
            graph.call_sites[node.call_site].line if node.call_site is not None else None,
            graph.scopes[node.scope].path if node.scope is not None else None,
            [graph.constants[place].tensor.shape for place in node.constants],
        )
        for node in graph.nodes
    ]


def test_the_wanted_call_is_recorded_as_completely_after_many_others_as_after_none(soon_forgotten: None) -> None:
    model = Net()
    with gradviz.record(backward=50) as late:
        for _ in range(50):
            step(model)
    with gradviz.record(backward=1) as early:
        for _ in range(50):
            step(model)
    assert late.graph.backward is not None
    assert late.graph.backward.number == 50
    assert described(late.graph) == described(early.graph)
    assert not late.capture.disclosures


def test_a_module_that_runs_the_whole_loop_stays_the_caller(soon_forgotten: None) -> None:
    class Trainer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def forward(self) -> None:
            for _ in range(40):
                step(self.net)

    trainer = Trainer()
    with gradviz.record(backward=39) as recording:
        trainer()
    assert {scope.path for scope in recording.graph.scopes} >= {"trainer", "trainer.net", "trainer.net.first"}


def test_what_was_computed_long_ago_and_is_still_held_is_disclosed_as_unknown(soon_forgotten: None) -> None:
    model, kept = Net(), torch.ones(3, requires_grad=True).exp()
    with gradviz.record(backward=51) as recording:
        old = kept.sin()
        for _ in range(50):
            step(model)
        (old.sum() + model(torch.ones(2, 3)).sum()).backward()
    assert [node.name for node in recording.graph.nodes if not node.is_leaf and node.call_site is None] == [
        "ExpBackward0",
        "SinBackward0",
    ]
    assert "the lines of 2 nodes are unknown: made before the recording began or more than 3 backward calls ago" in str(
        recording.capture.disclosures
    )


def test_the_last_call_takes_the_place_of_all_before_it() -> None:
    model = Net()
    with gradviz.record(backward="last") as recording:
        for _ in range(5):
            step(model)
    assert [graph.backward.number for graph in recording.graphs if graph.backward] == [5]
    assert recording.capture.backward_calls == 5
    assert recording.graph.nodes[-1].run is not None


def test_what_holds_for_every_call_is_disclosed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "gradviz.recording.backward.measured_calls.why_backward_cannot_be_measured", lambda: "compiled autograd runs it"
    )
    model = Net()
    with gradviz.record() as recording:
        for _ in range(5):
            step(model)
    assert recording.capture.disclosures == (
        "gradients of backward 1 and 4 later calls were not measured: compiled autograd runs it",
    )
