"""Steps that are recorded on a GPU: what they compute stays the same, and what is told of them is true."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import nn

from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Graph
from tests.cuda.device import DEVICE, Stream, autocast
from tests.integration.recording.helpers import leaf_named, record


class _Step(NamedTuple):
    weights: list[torch.Tensor]
    norms: list[float]
    """Of the gradients as backward left them, still scaled."""


def _amp_step(init_scale: float = 1024.0) -> _Step:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)).to(DEVICE)
    x = torch.randn(64, 16).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=init_scale)
    with autocast():
        loss = model(x).square().mean()
    scaler.scale(loss).backward()
    norms = [float(p.grad.double().norm()) for p in model.parameters() if p.grad is not None]
    scaler.step(optimizer)
    scaler.update()
    return _Step([p.detach().cpu() for p in model.parameters()], norms)


def _all_figures(graph: Graph) -> list[TensorFigures]:
    return [each for node in graph.nodes for each in (*node.arrived, *node.gradients) if each is not None]


def test_a_step_with_amp_ends_in_the_same_weights_as_without_gradviz() -> None:
    plain, recorded = _amp_step(), record(_amp_step).value

    assert all(torch.equal(one, other) for one, other in zip(plain.weights, recorded.weights, strict=True))
    assert plain.norms == recorded.norms


def test_gradients_of_a_step_with_amp_are_told_in_their_dtypes_with_their_norms() -> None:
    recording = record(_amp_step)

    figures = _all_figures(recording.graph)
    assert {"float16", "float32"} <= {each.dtype for each in figures}
    assert all(each.unmeasured is None for each in figures)
    assert {each.device.partition(":")[0] for each in figures} == {DEVICE}
    leaves = [node.leaf_gradient for node in recording.graph.nodes if node.leaf_gradient is not None]
    told = [leaf.after.norm for leaf in leaves if leaf.after is not None]
    assert sorted(norm for norm in told if norm is not None) == pytest.approx(sorted(recording.value.norms), rel=1e-4)


def test_a_scale_that_overflows_float16_is_seen_as_inf_or_nan() -> None:
    figures = _all_figures(record(lambda: _amp_step(2.0**60)).graph)

    assert any(each.infs + each.nans for each in figures if each.dtype == "float16")


WEIGHTS = [0.0, float("nan"), 3.0, float("inf"), -4.0, 0.0]


@pytest.mark.parametrize("repeats", [1, 40_001], ids=["copied", "measured where it is"])
def test_zeros_nan_and_extremes_are_those_of_the_gradient(repeats: int) -> None:
    def step() -> None:
        x = torch.ones(len(WEIGHTS) * repeats, device=DEVICE, requires_grad=True)
        (x * torch.tensor(WEIGHTS, device=DEVICE).repeat(repeats)).sum().backward()  # type: ignore[no-untyped-call]

    (found,) = leaf_named(record(step).graph, "x").arrived

    assert found is not None
    assert (found.zeros, found.nans, found.infs, found.count) == (2 * repeats, repeats, repeats, 6 * repeats)
    assert (found.minimum, found.maximum) == (-4.0, 3.0)
    assert found.norm == pytest.approx(5.0 * repeats**0.5)
    assert sum(found.histogram) > 0


def test_branches_on_several_streams_have_the_shares_of_what_they_computed() -> None:
    """Three gradients meet at `x`, from three streams; all are the same vector times 1, 2 and 3."""

    def step() -> tuple[torch.Tensor, torch.Tensor]:
        torch.manual_seed(0)
        x = torch.randn(1 << 20).to(DEVICE).requires_grad_()
        start = x * 1.0
        streams = [Stream(), Stream()]
        parts = [start * 1.0]
        for factor, stream in zip((2.0, 3.0), streams, strict=True):
            with stream.after_current():
                parts.append(start * factor)
        loss = torch.stack(parts).sum(0).square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        assert x.grad is not None
        return x.grad.cpu(), x.detach().cpu()

    for _ in range(5):  # a race may be won
        recording = record(step)
        gradient, x = recording.value
        assert torch.allclose(gradient, 72 * x)
        (sum_of_all,) = (node for node in recording.graph.nodes if _senders(recording.graph, node.id) == 3)
        shares = [
            share.share
            for node in recording.graph.nodes
            for edge, share in zip(node.edges, node.shares, strict=False)
            if edge is not None and edge.target == sum_of_all.id and share is not None
        ]
        assert sorted(share for share in shares if share is not None) == pytest.approx([1 / 6, 2 / 6, 3 / 6], rel=1e-3)
        (arrived,) = sum_of_all.arrived
        assert arrived is not None
        assert arrived.norm == pytest.approx(float(gradient.double().norm()), rel=1e-5)


def _senders(graph: Graph, node: int) -> int:
    return sum(edge is not None and edge.target == node for each in graph.nodes for edge in each.edges)


def _two_losses() -> list[torch.Tensor]:
    torch.manual_seed(0)
    w = torch.randn(64, 64).to(DEVICE).requires_grad_()
    for factor in (1.0, 2.0):
        (torch.tanh(w @ w) * factor).mean().backward()  # type: ignore[no-untyped-call]
    assert w.grad is not None
    return [w.grad.cpu()]


def _side_stream() -> list[torch.Tensor]:
    torch.manual_seed(0)
    w = torch.randn(256, 256).to(DEVICE).requires_grad_()
    stream = Stream()
    with stream.after_current():
        h = torch.tanh(w @ w)
    (h.sum() + w.sum()).backward()  # type: ignore[no-untyped-call]
    assert w.grad is not None
    return [w.grad.cpu()]


@pytest.mark.parametrize("program", [_two_losses, _side_stream])
def test_gradients_are_bit_for_bit_those_without_gradviz(program: Callable[[], list[torch.Tensor]]) -> None:
    for one, other in zip(program(), record(program).value, strict=True):
        assert torch.equal(one, other)
