"""What gradviz makes the processor wait for, and what it copies: of both at most once for each backward."""

from __future__ import annotations

import time
import warnings
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from tests.cuda.device import DEVICE, asks_cuda, sleep
from tests.integration.recording.helpers import Recording, node_named, record

CYCLES = 400_000_000
"""At least a tenth of a second on any GPU."""


def _model() -> tuple[nn.Module, torch.Tensor]:
    """Gradients of many shapes, a large one, and two sums: of two and of three branches."""
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(8 * size, 8 * size + 8), nn.Tanh()) for size in range(1, 12)]
    return nn.Sequential(*layers, nn.Linear(96, 1024)).to(DEVICE), torch.randn(128, 8).to(DEVICE)


def _loss(model: nn.Module, x: torch.Tensor) -> Any:
    out = model(x)
    return out.square().mean() + out.abs().mean() + (out * 3).tanh().mean()


def _profiled_backward() -> list[str]:
    """Names of what ran on the GPU during one backward call, the second of its kind."""
    model, x = _model()
    _loss(model, x).backward()
    loss = _loss(model, x)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        loss.backward()
    return [event.name for event in profiler.events() or ()]


@asks_cuda
def test_the_figures_of_a_backward_come_to_memory_in_one_copy() -> None:
    plain = sum("Memcpy DtoH" in name for name in _profiled_backward())
    recording = record(_profiled_backward)
    copies = sum("Memcpy DtoH" in name for name in recording.value)

    assert copies - plain == 1, f"{plain} copies without gradviz, {copies} with it"
    assert _number_of_figures(recording) > 60


def test_one_backward_has_many_figures_of_many_shapes() -> None:
    """What is copied at once in the test above."""

    def step() -> None:
        _loss(*_model()).backward()

    figures = [each for node in record(step).graph.nodes for each in node.gradients if each is not None]

    assert len({each.shape for each in figures}) > 20
    assert all(each.norm is not None for each in figures if not each.is_undefined)


def _number_of_figures(recording: Recording) -> int:
    return sum(each is not None for node in recording.capture.graphs[-1].nodes for each in node.gradients)


@asks_cuda
def test_a_recorded_backward_waits_for_the_gpu_at_most_once_more() -> None:
    def waits() -> int:
        model, x = _model()
        _loss(model, x).backward()
        loss = _loss(model, x)
        torch.cuda.set_sync_debug_mode("warn")
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                loss.backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        return sum("synchronizing CUDA operation" in str(each.message) for each in caught)

    plain = waits()

    assert record(waits).value <= plain + 1


class _Slow(torch.autograd.Function):
    """Its backward keeps the GPU busy after the processor has gone on; then it notes where the GPU is."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        sleep(CYCLES)
        return gradient * 2


def _slow_step() -> list[bool]:
    """Whether the GPU had done everything, when the processor came to the leaf."""
    x = torch.ones(1000, device=DEVICE, requires_grad=True)
    for _ in range(2):
        was_done: list[bool] = []
        loss = (_Slow.apply(x * 3).tanh() * 2).sum()  # type: ignore[no-untyped-call]
        handle = x.register_hook(lambda _, seen=was_done: seen.append(torch.cuda.current_stream().query()))  # type: ignore[no-untyped-call]
        loss.backward()
        handle.remove()
        torch.cuda.synchronize()
    return was_done


@asks_cuda
def test_nothing_waits_for_the_gpu_while_backward_runs() -> None:
    assert _slow_step() == [False], "the test proves nothing: the GPU is done before the processor"
    assert record(_slow_step).value == [False]


@asks_cuda
def test_the_time_of_a_node_is_that_of_the_gpu() -> None:
    started = time.perf_counter()
    sleep(CYCLES)
    torch.cuda.synchronize()
    busy = time.perf_counter() - started
    graph = record(_slow_step).capture.graphs[-1]
    slow = node_named(graph, "_SlowBackward")

    assert slow.run is not None
    assert slow.run.is_gpu_time
    assert 0.5 * busy < slow.run.seconds < 2 * busy
    others = [node.run for node in graph.nodes if node.run is not None and node is not slow]
    assert all(run.is_gpu_time for run in others)
    assert all(run.seconds < 0.2 * busy for run in others)
