"""A frozen part of a model that was put into evaluation mode, and that something puts back into training mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

MODEL = (
    HEAD
    + """
from contextlib import contextmanager
class Model(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body, self.head = body, nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    def forward(self, x):
        return self.head(self.body(x))
body = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU())
with torch.no_grad():
    for _ in range(10):
        body(torch.randn(64, 4))
model, other = Model(body), nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
valid = torch.randn(32, 4)
"""
)
LOOP = """
model.train()
model.body.requires_grad_(False)
model.body.eval()
optimizer = torch.optim.Adam(model.head.parameters(), lr=0.01)
for epoch in range(3):
    for _ in range(4):
        x = torch.randn(16, 4)
        loss = (model(x).squeeze(1) - x.sum(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    VALIDATE
"""
BLOCK = """
@contextmanager
def evaluating(net):
    was = net.training
    net.eval()
    try:
        with torch.no_grad():
            yield net
    finally:
        net.train(was)  # HERE
"""
IN_BLOCK = "with evaluating(model):\n        print(model(valid).square().mean().item())"
SCORE = """
def score(net, x):
    net.eval()
    with torch.no_grad():
        value = (net(x).squeeze(1) - x.sum(1)).square().mean().item()
    net.train()  # HERE
    return value
"""
CLASS = """
class Evaluating:
    def __init__(self, net):
        self.net = net
    def __enter__(self):
        self.was = self.net.training
        self.net.eval()
    def __exit__(self, *_):
        self.net.train(self.was)  # HERE
"""
BACK = {
    "a block": BLOCK + LOOP.replace("VALIDATE", IN_BLOCK),
    "a function": SCORE + LOOP.replace("VALIDATE", "print(score(model, valid))"),
    "a function of a function": SCORE
    + "def report(m):\n    print('score', score(m, valid))\n"
    + LOOP.replace("VALIDATE", "report(model)"),
    "the loop, beside another model": LOOP.replace(
        "VALIDATE", "other.train()\n    model.eval()\n    print(model(valid).mean().item())\n    model.train()  # HERE"
    ).replace("x = torch.randn(16, 4)", "other.train()\n        x = torch.randn(16, 4)"),
    "a class with a block": CLASS
    + LOOP.replace("VALIDATE", "with Evaluating(model), torch.no_grad():\n        print(model(valid).mean().item())"),
}
EACH = """
@contextmanager
def evaluating(net):
    was = {each: each.training for each in net.modules()}
    net.eval()
    try:
        with torch.no_grad():
            yield net
    finally:
        for each, mode in was.items():
            each.training = mode
"""
KEPT = {
    "the mode of each module": EACH + LOOP.replace("VALIDATE", IN_BLOCK),
    "evaluation mode again": BLOCK + LOOP.replace("VALIDATE", IN_BLOCK + "\n    model.body.eval()"),
    "a train() of its own": BLOCK
    + LOOP.replace("VALIDATE", IN_BLOCK).replace(
        "model.train()\n",
        "class Frozen(Model):\n    def train(self, mode=True):\n        super().train(mode)\n        self.body.eval()\n"
        "        return self\nmodel = Frozen(body)\nmodel.train()\n",
        1,
    ),
    "a part that trains": BLOCK
    + LOOP.replace("VALIDATE", IN_BLOCK)
    .replace("model.body.requires_grad_(False)\nmodel.body.eval()\n", "")
    .replace("model.head.parameters()", "model.parameters()"),
}


@pytest.mark.parametrize("case", BACK)
def test_the_line_that_puts_a_part_back_into_training_mode_is_told(case: str, tmp_path: Path) -> None:
    assert_first_alarm(MODEL + BACK[case], "training_mode", tmp_path)


@pytest.mark.parametrize("case", KEPT)
def test_a_part_that_stays_in_evaluation_mode_is_right(case: str, tmp_path: Path) -> None:
    assert not alarms(MODEL + KEPT[case], tmp_path)
