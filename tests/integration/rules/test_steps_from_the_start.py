"""Steps by hand whose results are never used, since the next one begins at the same weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PROGRAM = (
    HEAD
    + """
weights = [nn.Parameter(torch.randn(3, 4) * 0.5), nn.Parameter(torch.randn(4, 1) * 0.5)]
optimizer = torch.optim.Adam(weights, lr=0.01)
def net(x, w):
    return torch.tanh(x @ w[0]) @ w[1]
def stepped(w, loss):
    gradients = torch.autograd.grad(loss, w, create_graph=True)
    return [each - 0.1 * gradient for each, gradient in zip(w, gradients)]{mark}
for step in range(4):
    x = torch.randn(12, 3)
    y = x.sum(1, keepdim=True)
    {inner}
"""
    + TRAIN
)
QUERY = "loss = F.mse_loss(net(x[6:], adapted), y[6:])"
AGAIN = f"""for turn in range(3):
        adapted = stepped(weights, F.mse_loss(net(x[:6], weights), y[:6]))
    {QUERY}"""
ON = f"""adapted = weights
    for turn in range(3):
        adapted = stepped(adapted, F.mse_loss(net(x[:6], adapted), y[:6]))
    {QUERY}"""
TASKS = """loss = 0
    for task in range(3):
        x = torch.randn(12, 3)
        adapted = stepped(weights, F.mse_loss(net(x[:6], weights), x[:6].sum(1, keepdim=True)))
        loss = loss + F.mse_loss(net(x[6:], adapted), x[6:].sum(1, keepdim=True))"""
BEST = """found = [stepped(weights, F.mse_loss(net(x[i : i + 4], weights), y[i : i + 4])) for i in (0, 4, 8)]
    loss = min(F.mse_loss(net(x, each), y) for each in found)"""


def test_inner_steps_whose_results_nothing_uses_are_told(tmp_path: Path) -> None:
    assert_first_alarm(PROGRAM.format(mark="  # HERE", inner=AGAIN), "steps_from_the_start", tmp_path)


@pytest.mark.parametrize(
    "inner", [ON, TASKS, BEST], ids=["one after the other", "one for each task", "the best of three"]
)
def test_steps_whose_results_are_used_are_left_alone(inner: str, tmp_path: Path) -> None:
    found = alarms(PROGRAM.format(mark="", inner=inner), tmp_path)
    assert not [each for each in found if each.cause == "steps_from_the_start"]
