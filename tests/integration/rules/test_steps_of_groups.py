"""Steps in a loop over groups, and a decay by hand that has the other sign."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

TRAINED = (
    HEAD
    + """
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
groups = [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.01}]
optimizer = torch.optim.SGD(groups, lr=0.02, momentum=0.9, maximize=False)
for step in range(5):
    optimizer.zero_grad()
    F.mse_loss(model(torch.randn(16, 4)), torch.randn(16, 2)).backward()
"""
)
DECAY = "    with torch.no_grad():\n        for p in model.parameters():\n            {}\n    optimizer.step()\n"
AGAIN = {
    "in a loop over groups": "    for group in optimizer.param_groups:\n        group['lr'] *= 0.9\n"
    "        optimizer.step()  # HERE",
    "in a loop over layers": "    for layer in model:\n        if len(list(layer.parameters())):\n"
    "            optimizer.step()  # HERE",
}
ONCE = {
    "after the loop": "    for group in optimizer.param_groups:\n        group['lr'] *= 0.9\n    optimizer.step()",
    "with other gradients": "    for part in range(2):\n        optimizer.step()\n"
    "        for p in model.parameters():\n            p.grad = p.grad / 2",
    "with gradients that are changed": "    for part in range(2):\n        optimizer.step()\n"
    "        for p in model.parameters():\n            p.grad.mul_(0.5)",
    "with noise": "    for part in range(2):\n        optimizer.step()\n        with torch.no_grad():\n"
    "            for p in model.parameters():\n                p.add_(0.001 * torch.randn_like(p))",
}
GROWS = {
    "off the gradient": DECAY.format("p.grad.sub_(p, alpha=0.01)  # HERE"),
    "a negative number of it": DECAY.format("p.grad.add_(p, alpha=-0.01)  # HERE"),
    "as a new gradient": DECAY.format("p.grad = p.grad - 0.01 * p.data  # HERE"),
}
SHRINKS = {
    "to the gradient": DECAY.format("p.grad.add_(p, alpha=0.01)"),
    "off the parameter": DECAY.format("p.sub_(p, alpha=0.001)"),
    "up the gradient": DECAY.format("p.grad.neg_().sub_(p, alpha=0.01)").replace("=False", "=True"),
}


@pytest.mark.parametrize("name", AGAIN)
def test_an_optimizer_that_steps_again_with_the_same_gradients_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(TRAINED + AGAIN[name], "missing_zero_grad", tmp_path)


@pytest.mark.parametrize("name", GROWS)
def test_a_decay_with_the_other_sign_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(TRAINED + GROWS[name], "decay_of_wrong_group", tmp_path)


@pytest.mark.parametrize("training", [*ONCE.values(), *SHRINKS.values()], ids=[*ONCE, *SHRINKS])
def test_single_steps_and_decays_are_left_alone(training: str, tmp_path: Path) -> None:
    script = TRAINED + training
    assert not alarms(script.replace("=False", "=True") if "neg_()" in training else script, tmp_path)
