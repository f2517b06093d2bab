"""``gradviz.inspect(loss).backward()`` measures what backward would send, and leaves the program as it was."""

# mypy: allow-untyped-calls, no-warn-return-any
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import gradviz
from gradviz.analysis.flow.gradient_flow import gradient_flow
from gradviz.errors import BadInput
from gradviz.graph.gradients import TensorFigures
from gradviz.graph.model import Node
from tests.integration.recording.helpers import leaf_named
from tests.leftovers import random_state


def small_net() -> tuple[nn.Module, Tensor]:
    net = nn.Sequential(nn.Linear(4, 5), nn.Dropout(0.5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 1))
    return net, net(torch.ones(3, 4)).mean()


def arrived(node: Node) -> TensorFigures:
    assert node.arrived[0] is not None
    return node.arrived[0]


def test_what_is_measured_is_what_backward_then_brings() -> None:
    net, loss = small_net()
    measured = gradviz.inspect(loss, model=net).backward()
    loss.backward()
    for name, parameter in net.named_parameters():
        figures = arrived(leaf_named(measured.graph, f"net.{name}"))
        assert figures.norm == pytest.approx(float(parameter.grad.norm()), rel=1e-5)  # type: ignore[union-attr]
    assert all(node.run is not None for node in measured.graph.nodes if not node.is_leaf)


def test_nothing_of_the_program_is_changed() -> None:
    net, loss = small_net()
    hidden = (net(torch.ones(3, 4)) * 2).requires_grad_()
    hidden.retain_grad()
    hidden.sum().backward(retain_graph=True)
    before = [(p.grad, p.grad.clone(), p.grad._version, p._version) for p in (*net.parameters(), hidden)]
    state = random_state()
    total = hidden.sum() + loss
    gradviz.inspect(total).backward()
    assert random_state() == state
    for parameter, (grad, value, version, own_version) in zip((*net.parameters(), hidden), before, strict=True):
        assert parameter.grad is grad
        assert torch.equal(grad, value)
        assert (grad._version, parameter._version) == (version, own_version)
    total.backward()


def test_the_inspection_that_was_there_stays_without_gradients() -> None:
    _, loss = small_net()
    inspected = gradviz.inspect(loss)
    measured = inspected.backward()
    assert not any(node.gradients for node in inspected.graph.nodes)
    assert measured.graph.roots[0].gradient is not None and measured.graph.roots[0].gradient.mean == 1


def test_several_roots_start_from_their_own_gradients() -> None:
    x = torch.ones(2, requires_grad=True)
    out = {"first": x * 2, "second": (x * 3).sum()}
    given = {"first": torch.tensor([1.0, 0.0]), "second": None}
    measured = gradviz.inspect(out).backward(given, values=4)
    assert arrived(leaf_named(measured.graph, "x")).values == (5.0, 3.0)


def test_a_complex_root_starts_from_a_complex_gradient() -> None:
    z = torch.ones(1, dtype=torch.complex64, requires_grad=True)
    y = z * 2j
    with pytest.raises(BadInput, match=r"y has shape \[1\]: grad can be implicitly created only for real scalar"):
        gradviz.inspect(y).backward()
    measured = gradviz.inspect(y).backward(torch.ones(1, dtype=torch.complex64))
    assert arrived(leaf_named(measured.graph, "z")).norm == 2


def test_a_recording_around_it_does_not_take_it_for_a_call_of_the_program() -> None:
    x = torch.ones(2, requires_grad=True)
    with gradviz.record() as recording:
        loss = (x * 3).sum()
        measured = gradviz.inspect(loss).backward()
        loss.backward()
    assert recording.capture.backward_calls == 1
    assert arrived(leaf_named(measured.graph, "x")).mean == 3
    assert measured.graph.call_sites, "the recording saw the lines"


def test_the_flow_of_a_requested_backward_has_a_profile() -> None:
    net, loss = small_net()
    measured = gradviz.inspect(loss, model=net).backward()
    assert len(gradient_flow(measured.capture, measured.graph).profile) == 3


def test_hooks_of_the_program_run_once_more_and_that_is_reported() -> None:
    x = torch.ones(2, requires_grad=True)
    seen: list[Tensor] = []
    x.register_hook(seen.append)
    measured = gradviz.inspect(loss := (x * 3).sum()).backward()
    assert len(seen) == 1
    assert any("hooks of the program ran once more" in sentence for sentence in measured.capture.disclosures)
    del loss


def test_a_hook_that_raises_is_the_programs_own_error() -> None:
    x = torch.ones(2, requires_grad=True)

    def fail(grad: Tensor) -> None:
        raise ArithmeticError("mine")

    x.register_hook(fail)
    loss = (x * 3).sum()
    with pytest.raises(ArithmeticError, match="mine"):
        gradviz.inspect(loss).backward()


def test_a_checkpointed_loss_can_be_measured_before_its_own_backward() -> None:
    layer, x = nn.Linear(3, 3), torch.ones(2, 3)
    loss = checkpoint(lambda value: layer(value).tanh(), x, use_reentrant=False).sum()
    measured = gradviz.inspect(loss, model=layer).backward()
    loss.backward()
    assert layer.weight.grad is not None
    assert arrived(leaf_named(measured.graph, "layer.weight")).norm == pytest.approx(float(layer.weight.grad.norm()))


def _gone() -> Any:
    x = torch.ones(2, requires_grad=True)
    return gradviz.inspect(x.sum())


def _freed() -> Any:
    x = torch.ones(2, requires_grad=True)
    loss = x.exp().sum()
    loss.backward()
    return gradviz.inspect(loss), loss


def _changed() -> Any:
    loss = torch.ones(2, requires_grad=True).sum()
    inspected = gradviz.inspect(loss)
    loss.add_(1)
    return inspected, loss


def _wrong_shape() -> Any:
    y = torch.ones(2, requires_grad=True) * 2
    return gradviz.inspect(y), y


@pytest.mark.parametrize(
    ("make", "gradient", "words"),
    [
        (_gone, None, "is gone: an inspection keeps no tensor alive; keep it in a variable"),
        (_freed, None, "the graph of loss was freed by an earlier backward; measure before that"),
        (_changed, None, "the graph of loss was changed since it was inspected"),
        (_wrong_shape, None, r"y has shape \[2\]: grad can be implicitly created only for scalar outputs"),
        (_wrong_shape, torch.ones(3), r"y has shape \[2\]: Mismatch in shape: grad_output\[0\] has a shape of .*\[3\]"),
        (_wrong_shape, 2.0, "gradient=2.0 is not a tensor"),
        (_wrong_shape, [torch.ones(2), None], r"2 gradients for 1 root \(y\)"),
    ],
)
def test_what_cannot_be_measured_is_one_clear_line(make: Callable[[], Any], gradient: Any, words: str) -> None:
    made = make()
    inspected, *_ = made if isinstance(made, tuple) else (made,)
    with pytest.raises(BadInput, match=words):
        inspected.backward(gradient)


def test_a_recording_cannot_be_measured_again() -> None:
    with gradviz.record() as recording:
        loss = torch.ones(2, requires_grad=True).sum()
    with pytest.raises(BadInput, match=r"measures existing tensors.*gradviz.inspect\(loss\)"):
        recording.backward()
    del loss


def test_a_view_that_torch_gave_up_is_no_obstacle() -> None:
    x = torch.ones(4, requires_grad=True)
    doubled = x * 2
    given_up = doubled.view(2, 2).unbind(0)
    doubled.mul_(3)  # from here on torch refuses to say whether these views are leaves
    loss = (x * 5).sum()
    assert gradviz.inspect(loss).backward().graph.find("x")[0].arrived[0] is not None
    assert not any(view.retains_grad for view in given_up)


class Recomputed(torch.autograd.Function):
    """Calls backward itself, as reversible layers do: the layer's parameters are in no graph around it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: nn.Module) -> Tensor:
        ctx.layer, ctx.x = layer, x.detach()
        return layer(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        with torch.enable_grad():
            x = ctx.x.requires_grad_()
            torch.autograd.backward(ctx.layer(x), gradient)
        return x.grad, None


def test_parameters_that_only_a_backward_inside_reaches_keep_their_grad() -> None:
    layer = nn.Linear(3, 3)
    x = torch.ones(2, 3, requires_grad=True)
    loss = Recomputed.apply(x, layer).sum()
    loss.backward(retain_graph=True)
    before = layer.weight.grad
    assert before is not None
    values = before.clone()
    measured = gradviz.inspect(loss).backward()
    assert arrived(measured.graph.find("x")[0]).norm
    assert layer.weight.grad is before
    assert torch.equal(before, values)
