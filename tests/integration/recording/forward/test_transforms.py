"""Disabled gradients, other precisions, function transforms and tracers work under recording as without it."""

# Much of torch has no types: backward, register_hook, Function.apply.
# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.integration.recording.helpers import names_of_nodes, record
from tests.integration.recording.small_graphs import weight

SCRIPTED_BY_TORCH = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
"""Warnings of torch itself when forward-mode differentiation is first used."""


def test_inference_mode_and_no_grad_work_as_without_recording() -> None:
    def run() -> tuple[bool, bool]:
        layer = nn.Linear(2, 2)
        with torch.inference_mode():
            silent = layer(torch.ones(1, 2))
        with torch.no_grad():
            frozen = layer(torch.ones(1, 2))
        layer(torch.ones(1, 2)).sum().backward()
        return silent.is_inference(), frozen.requires_grad

    recording = record(run)
    assert recording.value == (True, False)
    assert names_of_nodes(recording.graph).count("AddmmBackward0") == 1


@SCRIPTED_BY_TORCH
def test_function_transforms_work_and_give_the_same() -> None:
    def loss(w: Tensor, x: Tensor) -> Tensor:
        return (F.linear(x, w).sin() ** 2).sum()

    def run() -> list[Tensor]:
        torch.manual_seed(0)
        w, x = torch.randn(2, 3), torch.randn(4, 3)
        per_row = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(w, x)
        jacobian = torch.func.jacrev(lambda weights: F.linear(x, weights))(w)
        hessian = torch.func.hessian(loss)(w, x)
        tangent: Any = torch.func.jvp(lambda weights: loss(weights, x), (w,), (w,))[1]
        return [per_row, jacobian, hessian, tangent]

    native, recorded = run(), record(run).value
    assert all(torch.equal(*pair) for pair in zip(native, recorded, strict=True))


def test_gradients_through_a_function_transform_are_recorded() -> None:
    def run() -> None:
        w = weight(3)
        inner = torch.func.grad(lambda x: (x**3).sum())(w)
        inner.sum().backward()

    assert record(run).capture.graphs


def test_per_sample_gradients_of_a_custom_function_work() -> None:
    class Square(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return x * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return gradient * 2 * x

    def run() -> Tensor:
        gradient = torch.func.vmap(torch.func.grad(lambda x: Square.apply(x)))(torch.arange(3.0))
        assert isinstance(gradient, Tensor)
        return gradient

    assert torch.equal(record(run).value, torch.arange(3.0) * 2)


def test_autocast_chooses_the_same_types() -> None:
    def run() -> tuple[torch.dtype, torch.dtype]:
        layer = nn.Linear(2, 2)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = layer(torch.ones(1, 2))
            loss = hidden.float().softmax(-1).sum()
        loss.backward()
        assert layer.weight.grad is not None
        return hidden.dtype, layer.weight.grad.dtype

    assert record(run).value == run() == (torch.bfloat16, torch.float32)


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled:UserWarning")
def test_anomaly_mode_finds_what_it_would_find() -> None:
    def run() -> str:
        with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError) as failure:
            (weight(2) * 0 - 1).sqrt().sum().backward()
        return str(failure.value)

    recording = record(run)
    assert recording.value == run()
    assert "SqrtBackward0" in recording.value
    assert "MulBackward0" in names_of_nodes(recording.graph)


@SCRIPTED_BY_TORCH
def test_forward_mode_differentiation_works_as_without_recording() -> None:
    def run() -> Tensor:
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(torch.ones(2), torch.full((2,), 3.0))
            tangent = torch.autograd.forward_ad.unpack_dual(dual.sin()).tangent
        assert tangent is not None
        return tangent

    assert torch.equal(record(run).value, run())


def test_symbolic_tracing_sees_the_same_program() -> None:
    def traced() -> str:
        return str(torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU())).graph)

    assert record(traced).value == traced()
