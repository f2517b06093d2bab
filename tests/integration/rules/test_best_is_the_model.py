"""Second names for a model that is trained further; and objects that a loop makes anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

_START = """
x = torch.randn(60, 4)
y = x.sum(1, keepdim=True)
def error(model):
    with torch.no_grad():
        return F.mse_loss(model(x[40:]), y[40:]).item()
def step(model, optimizer):
    loss = F.mse_loss(model(x[:40]), y[:40])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
_LOOP = (
    _START
    + """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best, best_model = float("inf"), None
for epoch in range(6):
    step(model, optimizer)
    score = error(model)
    if score < best:
        BRANCH
print(error(best_model))
"""
)


@pytest.mark.parametrize(
    "script",
    [
        _LOOP.replace("BRANCH", "best, best_model = score, model  # HERE"),
        _LOOP.replace("BRANCH", "best = score\n        best_model = model  # HERE"),
        _START
        + """
class Trainer:
    def __init__(self, model):
        self.model, self.best, self.kept = model, None, None
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.1)
    def fit(self):
        for epoch in range(5):
            step(self.model, self.optimizer)
            value = error(self.model)
            if self.best is None or value < self.best:
                self.best = value
                self.kept = self.model  # HERE
        return self.kept
error(Trainer(nn.Linear(4, 1)).fit())
""",
        # What an optimizer holds is a tensor.
        """
point = torch.zeros(3, requires_grad=True)
optimizer = torch.optim.Adam([point], lr=0.3)
least = None
for step in range(9):
    loss = (point - torch.tensor([1.0, 2.0, 3.0])).square().sum() + 0.1 * torch.randn(())
    optimizer.zero_grad()
    loss.backward()
    value = loss.item()
    if least is None or value < least:
        least, found = value, point  # HERE
    optimizer.step()
print(found)
""",
    ],
    ids=["a tuple", "two lines", "attributes", "a tensor"],
)
def test_the_best_is_only_a_name(script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script, "best_is_the_model", tmp_path)


@pytest.mark.parametrize(
    "script",
    [
        _LOOP.replace("BRANCH", "best, best_model = score, copy.deepcopy(model)"),
        _LOOP.replace("BRANCH", "best, best_model = score, model\n        break"),
        # One model for each round, made here or elsewhere.
        _START
        + """
best, best_model = float("inf"), None
for rate in (0.3, 0.1, 0.03):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for epoch in range(3):
        step(model, optimizer)
    score = error(model)
    if score < best:
        best, best_model = score, model
print(error(best_model))
""",
        _START
        + """
models = [nn.Linear(4, 1) for _ in range(3)]
best, best_model = float("inf"), None
for model in models:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        step(model, optimizer)
    score = error(model)
    if score < best:
        best, best_model = score, model
print(error(best_model))
""",
        # A step by hand makes another tensor.
        """
point = torch.zeros(3, requires_grad=True)
least = None
optimizer = torch.optim.SGD([point], lr=0.1)
for step in range(5):
    loss = (point - torch.tensor([1.0, 2.0, 3.0])).square().sum()
    (slope,) = torch.autograd.grad(loss, point)
    value = loss.item()
    if least is None or value < least:
        least, found = value, point
    point = (point - 0.1 * slope).detach().requires_grad_()
print(found)
""",
    ],
    ids=["a copy", "the loop ends", "made in each round", "one of several", "another tensor"],
)
def test_the_best_is_another_object(script: str, tmp_path: Path) -> None:
    assert "best_is_the_model" not in {each.cause for each in alarms(HEAD + script, tmp_path)}
