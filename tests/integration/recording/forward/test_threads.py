"""Programs that compute in several threads: nothing breaks, and what could not be seen is disclosed."""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradviz.recording.ranks.exchange_watch import ExchangeWatch
from gradviz.recording.run.recording_failures import Defects
from gradviz.recording.run.recording_plan import RecordingPlan
from gradviz.recording.torch_access.distributed.sharded_parameters import ShardingWatch
from tests.integration.recording.helpers import (
    line_of,
    names_of_nodes,
    nodes_named,
    record,
    recorded_script,
    recorder,
    scope_of,
)
from tests.integration.recording.small_graphs import weight


def in_threads(*functions: Callable[[], Any]) -> None:
    """Run each function in a thread of its own, one after the other; what it raises is raised here."""
    for function in functions:
        failures: list[BaseException] = []

        def run(function: Callable[[], Any] = function, failures: list[BaseException] = failures) -> None:
            try:
                function()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if failures:
            raise failures[0]


def sine_step() -> None:
    """A step without modules."""
    loss = weight(3).sin().sum()
    loss.backward()


def test_each_thread_that_calls_backward_has_a_graph() -> None:
    recording = record(lambda: in_threads(sine_step, sine_step))
    assert [names_of_nodes(graph)[1:] for graph in recording.capture.graphs] == [["SinBackward0", "SumBackward0"]] * 2
    assert [graph.roots[0].name for graph in recording.capture.graphs] == ["loss", "loss"]
    assert recording.capture.backward_calls == 2


def test_threads_at_the_same_time_each_get_their_own_graph() -> None:
    barrier = threading.Barrier(2)

    def step(operation: Callable[[Tensor], Tensor]) -> None:
        layer = nn.Linear(3, 3)
        for _ in range(20):
            barrier.wait()
            operation(layer(torch.ones(1, 3))).sum().backward()

    def run() -> None:
        threads = [threading.Thread(target=step, args=(operation,)) for operation in (torch.sin, torch.exp)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    recording = record(run)
    assert len(recording.capture.graphs) == 40
    kinds = [
        ("SinBackward0" in names_of_nodes(g), "ExpBackward0" in names_of_nodes(g)) for g in recording.capture.graphs
    ]
    assert kinds.count((True, False)) == kinds.count((False, True)) == 20
    numbers = [graph.backward.number for graph in recording.capture.graphs if graph.backward]
    assert sorted(numbers) == list(range(1, 41))


def test_operations_of_an_unwatched_thread_are_not_given_lines_of_another() -> None:
    """Sequence numbers count for each thread on its own, so numbers of two threads coincide."""

    def run() -> None:
        x = weight(3)
        x = x * 2
        x = x.exp()
        x = x.cos()
        in_threads(sine_step)

    recording = record(run)
    graph = recording.graph
    for node in graph.nodes:
        if node.call_site is not None:
            assert line_of(recording.capture, graph, node) in {"loss = weight(3).sin().sum()", "loss.backward()"}
        assert node.forward_call in {None, "torch.Tensor.sin", "torch.Tensor.sum"}


def test_a_graph_whose_lines_were_not_seen_says_so() -> None:
    recording = record(lambda: in_threads(sine_step))
    assert all(node.forward_call is None for node in recording.graph.nodes)
    assert any("thread" in sentence for sentence in recording.capture.disclosures)


def test_a_graph_of_two_threads_is_in_order_and_says_that_lines_may_be_missing() -> None:
    parts: list[Tensor] = []

    def compute() -> None:
        layer = nn.Linear(3, 3)
        parts.append(layer(torch.ones(1, 3)).sin())

    def run() -> None:
        layer = nn.Linear(3, 3)
        mine = layer(torch.ones(1, 3)).cos()
        in_threads(compute)
        (mine * parts[0]).sum().backward()

    recording = record(run)
    assert {"SinBackward0", "CosBackward0"} <= set(names_of_nodes(recording.graph))
    assert any("thread" in sentence for sentence in recording.capture.disclosures)


def test_modules_called_in_another_thread_do_not_nest_in_those_of_this_one() -> None:
    inner = nn.Tanh()

    class Outer(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            in_threads(lambda: inner(torch.ones(1)))
            return x.sin()

    def run() -> None:
        outer = Outer()
        outer(weight(3)).cos().sum().backward()

    recording = record(run)
    graph = recording.graph
    assert [scope_of(graph, node) for node in nodes_named(graph, "SinBackward0")] == ["outer"]
    assert [scope_of(graph, node) for node in nodes_named(graph, "CosBackward0")] == [None]
    assert [scope.path for scope in graph.scopes] == ["outer"]


def test_a_recording_that_ends_while_another_thread_computes_leaves_that_thread_alone() -> None:
    stop, failures = threading.Event(), []

    def compute() -> None:
        layer = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        try:
            while not stop.is_set():
                layer(torch.ones(1, 3)).sum().backward()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        for _ in range(5):
            with recorder():
                sine_step()
    finally:
        stop.set()
        thread.join()
    assert failures == []


def test_a_module_that_still_runs_in_another_thread_replaces_nothing_when_the_recording_has_ended() -> None:
    from torch.distributed.fsdp._fully_shard._fsdp_param import FSDPParam

    original, watch = FSDPParam.init_unsharded_param, ShardingWatch(lambda whole: None)
    watch.look()
    assert FSDPParam.init_unsharded_param is not original
    watch.stop()
    watch.look()
    assert FSDPParam.init_unsharded_param is original


def test_a_recording_that_ends_in_another_thread_ends_here_with_the_program() -> None:
    # The mode of this thread cannot be taken off from another one: until the end it passes every call through.
    def run() -> float:
        in_threads(sine_step)
        return torch.ones(2).sin().sum().item()

    recording = record(run, RecordingPlan(backward=1, keep_going=True))
    assert len(recording.capture.graphs) == 1
    assert recording.value == pytest.approx(2 * math.sin(1))
    assert torch._C._len_torch_function_stack() == 0


def test_a_forward_in_a_worker_and_a_backward_here_have_a_graph() -> None:
    results: list[Tensor] = []

    def run() -> None:
        in_threads(lambda: results.append(weight(3).sin().sum()))
        results[0].backward()

    recording = record(run)
    assert names_of_nodes(recording.graph)[1:] == ["SinBackward0", "SumBackward0"]


def test_what_only_another_thread_uses_is_not_called_unused() -> None:
    encoder, head = nn.Linear(2, 2), nn.Linear(2, 1)

    def step() -> None:
        found: list[Tensor] = []
        in_threads(lambda: found.append(encoder(torch.ones(1, 2)).detach()))
        head(found[0]).sum().backward()

    capture = record(step, RecordingPlan(backward=None, keep_going=True, calls=True)).capture
    assert capture.calls is not None
    used = {name for tensor in capture.calls.tensors if tensor.is_used_elsewhere for name in tensor.names}
    assert used == {"encoder.weight", "encoder.bias"}
    assert any("torch calls of other threads, which ran Linear" in sentence for sentence in capture.disclosures)


def test_what_two_threads_made_is_drawn_in_no_module_of_the_other() -> None:
    """Both count from the same number, so that the layer of one would stand in the block of the other."""

    class Tower(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.exp().sin()

    tower, layer, results = Tower(), nn.Linear(3, 3), list[Tensor]()
    x = weight(2, 3)

    def run() -> None:
        in_threads(lambda: results.append(tower(x)), lambda: results.append(layer(x)))
        (results[0] + results[1]).sum().backward()

    recording = record(run)
    graph = recording.graph
    (linear,) = nodes_named(graph, "AddmmBackward0")
    assert scope_of(graph, linear) in (None, "layer")
    assert all(scope_of(graph, node) in (None, "tower") for node in nodes_named(graph, "ExpBackward0"))
    assert any("several threads made this graph" in sentence for sentence in recording.capture.disclosures)


TRAINS_IN_A_THREAD = """
import sys, threading, torch
def train():
    for step in range(3):
        torch.ones(2, requires_grad=True).sum().backward()
threading.Thread(target=train).start()
"""
LEAVES_A_POOL = """
import torch
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(1)
def train():
    for step in range(3):
        torch.ones(2, requires_grad=True).sum().backward()
pool.submit(train)
"""


@pytest.mark.parametrize(
    ("script", "calls"),
    [(TRAINS_IN_A_THREAD, 3), (TRAINS_IN_A_THREAD + "sys.exit(0)\n", 3), (LEAVES_A_POOL, 3)],
    ids=["ends", "exits", "pool"],
)
def test_threads_that_a_script_leaves_belong_to_its_run_and_idle_pools_do_not(
    script: str, calls: int, tmp_path: Path
) -> None:
    assert recorded_script(tmp_path, script).backward_calls == calls


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_is_left_behind_can_be_stopped(tmp_path: Path) -> None:
    capture = recorded_script(tmp_path, TRAINS_IN_A_THREAD, RecordingPlan())
    assert capture.backward_calls == 1
    assert capture.outcome == "stopped"
    # pytest tells the end of the thread, which is no error, to the test that runs then: it shall be this one.
    for thread in threading.enumerate():
        if "(train)" in thread.name:
            thread.join()


def test_a_module_that_another_thread_calls_as_the_recording_ends_gets_nothing_replaced() -> None:
    import torch.distributed.fsdp._runtime_utils as of_torch

    before = of_torch._reduce_grad
    watch = ExchangeWatch(tuple, Defects())
    watch.look()
    assert of_torch._reduce_grad is not before
    watch.stop()
    watch.look()  # the other thread had begun to call its module
    assert of_torch._reduce_grad is before
