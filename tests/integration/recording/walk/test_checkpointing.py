"""Checkpointing and saved-tensor hooks: recording computes nothing again and unpacks nothing."""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from gradviz.recording.walk.graph_walker import walk
from tests.integration.recording.helpers import (
    line_of,
    names_of_nodes,
    node_named,
    nodes_named,
    record,
    record_failing,
    scope_of,
)
from tests.integration.recording.small_graphs import weight


class Block(nn.Module):
    """Counts how often it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.runs = 0

    def forward(self, x: Tensor) -> Tensor:
        self.runs += 1
        return self.linear(x).tanh()


class StopHere(Exception):
    """Ends a backward before it has computed anything."""


@pytest.mark.parametrize("reentrant", [True, False])
def test_recording_runs_no_checkpointed_forward(reentrant: bool) -> None:
    block = Block()

    def run() -> None:
        loss = checkpoint(block, weight(1, 3), use_reentrant=reentrant).sum()

        def stop(gradient: Tensor) -> None:
            raise StopHere

        loss.register_hook(stop)  # backward ends before the checkpoint computes anything again
        assert block.runs == 1
        loss.backward()

    record_failing(run, StopHere)
    assert block.runs == 1


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_whole_step_runs_each_forward_as_often_as_without_us(reentrant: bool) -> None:
    def step() -> tuple[int, Tensor | None]:
        torch.manual_seed(0)
        block, x = Block(), weight(1, 3)
        checkpoint(block, x, use_reentrant=reentrant).sum().backward()
        return block.runs, x.grad

    native, recorded = step(), record(step).value
    assert native[0] == recorded[0] == 2
    assert torch.equal(native[1], recorded[1])  # type: ignore[arg-type]


def test_a_reentrant_checkpoint_is_one_checkpoint_node() -> None:
    def run() -> None:
        kept = checkpoint(Block(), weight(1, 3), use_reentrant=True)
        kept.sum().backward()

    recording = record(run)
    node = node_named(recording.graph, "CheckpointFunctionBackward")
    assert node.kind == "checkpoint"
    assert node.names == ("kept",)
    assert line_of(recording.capture, recording.graph, node).startswith("kept = checkpoint(")
    assert len(recording.capture.graphs) == 1, "the backward inside belongs to torch"
    assert recording.capture.backward_calls == 1


def test_what_a_checkpoint_without_reentering_will_compute_again_is_marked() -> None:
    def run() -> None:
        block = Block()
        x = weight(1, 3).sin()
        checkpoint(block, x, use_reentrant=False).sum().backward()

    graph = record(run).graph
    assert node_named(graph, "TanhBackward0").kind == "checkpoint"
    assert node_named(graph, "SinBackward0").kind == "operation"
    assert node_named(graph, "SumBackward0").kind == "operation"
    assert scope_of(graph, node_named(graph, "TanhBackward0")) == "block"


def test_a_checkpointed_sequence_keeps_its_modules_apart() -> None:
    def run() -> None:
        model = nn.Sequential(*[Block() for _ in range(4)])
        checkpoint_sequential(model, 2, weight(1, 3), use_reentrant=False).sum().backward()

    graph = record(run).graph
    assert [scope_of(graph, node) for node in nodes_named(graph, "TanhBackward0")] == [
        f"model.{place}" for place in range(4)
    ]


def test_saved_tensors_hooks_are_called_as_often_as_without_us() -> None:
    def step() -> tuple[list[str], Tensor | None]:
        calls: list[str] = []

        def pack(x: Tensor) -> Tensor:
            calls.append("pack")
            return x.detach()

        def unpack(x: Tensor) -> Tensor:
            calls.append("unpack")
            return x

        w = weight(3)
        with saved_tensors_hooks(pack, unpack):
            loss = (w * w).sin().sum()
        loss.backward()
        return calls, w.grad

    native, recorded = step(), record(step)
    assert recorded.value[0] == native[0]
    assert torch.equal(recorded.value[1], native[1])  # type: ignore[arg-type]
    assert len(recorded.graph.nodes) == 4


def test_an_unpack_hook_that_refuses_is_not_called_by_the_walk() -> None:
    def refuse(packed: Any) -> Tensor:
        raise AssertionError("unpacked")

    def run() -> None:
        w = weight(3)
        with saved_tensors_hooks(lambda tensor: "packed", refuse):
            loss = (w * w).sin().softmax(dim=-1).sum()

        def stop(gradient: Tensor) -> None:
            raise StopHere

        loss.register_hook(stop)
        loss.backward()

    graph = record_failing(run, StopHere).graph
    assert names_of_nodes(graph)[1:] == ["MulBackward0", "SinBackward0", "SoftmaxBackward0", "SumBackward0"]
    assert node_named(graph, "SoftmaxBackward0").attributes == {"dim": -1}
    assert all(node.kind == "operation" for node in graph.nodes if not node.is_leaf)


def test_tensors_saved_on_the_cpu_stay_packed() -> None:
    def run() -> None:
        w = weight(3)
        with save_on_cpu():
            loss = (w * w).exp().sum()
        loss.backward()

    assert names_of_nodes(record(run).graph)[1:] == ["MulBackward0", "ExpBackward0", "SumBackward0"]


def test_the_walk_alone_unpacks_nothing() -> None:
    block = Block()
    loss = checkpoint(block, weight(1, 3), use_reentrant=False).sum()
    assert walk([loss.grad_fn]).wrappers
    assert block.runs == 1


def test_nested_checkpoints_are_recorded() -> None:
    def inner(x: Tensor) -> Tensor:
        return checkpoint(torch.sin, x, use_reentrant=False).cos()

    def run() -> Tensor:
        w = weight(3)
        checkpoint(inner, w, use_reentrant=False).sum().backward()
        assert w.grad is not None
        return w.grad

    recording = record(run)
    assert torch.equal(recording.value, run())
    assert {node_named(recording.graph, name).kind for name in ("SinBackward0", "CosBackward0")} == {"checkpoint"}


def test_offloading_of_a_whole_step_gives_the_same_gradients() -> None:
    def step() -> list[Tensor]:
        torch.manual_seed(3)
        model = nn.Sequential(Block(), Block())
        with save_on_cpu():
            loss = model(torch.ones(2, 3)).sum()
        loss.backward()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    native, recorded = step(), record(step).value
    assert all(torch.equal(*pair) for pair in zip(native, recorded, strict=True))
