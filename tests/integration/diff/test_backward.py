"""Backward is compared call by call: the first that differs is named, with the node and the reason."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import gradviz


def recorded(
    *, steps: int = 3, other_hook_at: int = -1, other_seed_at: int = -1, lr: float = 0.1, has_log: bool = True
) -> gradviz.Recording:
    """Some training steps; in one of them a hook doubles the gradient, or backward begins with another one."""
    torch.manual_seed(0)
    with gradviz.record(fingerprints=has_log) as recording:
        layer = nn.Linear(4, 4)
        optimizer = torch.optim.SGD(layer.parameters(), lr)
        for step in range(steps):
            hidden = layer(torch.arange(8.0).reshape(2, 4) + step)
            if step == other_hook_at:
                hidden.register_hook(lambda gradient: 2 * gradient)
            loss = hidden.tanh().square().mean()
            loss.backward(gradient=torch.tensor(2.0 if step == other_seed_at else 1.0))
            optimizer.step()
            optimizer.zero_grad()
    return recording


@pytest.mark.parametrize("has_log", [True, False])
def test_the_first_backward_call_that_differs_is_named(has_log: bool) -> None:
    found = gradviz.diff(recorded(has_log=has_log, lr=0.0), recorded(has_log=has_log, other_hook_at=1, lr=0.0))
    first = found.first
    assert not found.same and first is not None and found.difference.backward is not None
    assert found.difference.backward.what == (
        "backward 2: AddmmBackward0 gets another gradient though its users sent the same"
    )
    assert found.difference.backward.reason == "hooks on it: none in A, recorded.<locals>.<lambda> in B"
    assert "3 backward calls compared" in str(found)
    assert "figures and pictures are of backward 2, the first that differs" in found.difference.disclosures
    norms = {figure.name: figure.ratio for figure in found.figures if figure.name.startswith("gradient norm")}
    assert norms == pytest.approx({"gradient norm of layer.weight": 2.0, "gradient norm of layer.bias": 2.0}, rel=1e-5)


def test_a_backward_that_begins_with_another_gradient_is_named_in_its_step() -> None:
    found = gradviz.diff(recorded(), recorded(other_seed_at=2))
    assert found.difference.backward is not None
    assert found.difference.backward.what == "backward 3: backward begins with another gradient at MeanBackward0"
    assert found.difference.backward.distance == pytest.approx(0.5)


def test_another_number_of_backward_calls_is_a_difference() -> None:
    found = gradviz.diff(recorded(steps=3), recorded(steps=2))
    assert not found.same
    assert "backward is called 3 times in A, 2 times in B" in [change.what for change in found.changes]


def test_two_steps_of_one_recording_are_compared_without_what_ran_between_them(tmp_path: Path) -> None:
    path = str(tmp_path / "run.gradviz")
    recorded(lr=0.0).save(path)
    found = gradviz.diff(f"{path}#1", f"{path}#2")
    assert found.first is not None and found.first.what == "add: argument 1 is 0 in A, 1 in B"
    assert not found.difference.disclosures
    recorded(lr=0.1, steps=4).save(tmp_path / "b.gradviz")
    again = gradviz.diff(f"{path}#2", str(tmp_path / "b.gradviz#2"))
    assert again.first is not None and again.first.cause == "input"
    assert "the parameter layer.weight has other values when linear takes it" in again.first.what
    assert not any(word in str(again) for word in ("kaiming", "step at"))
