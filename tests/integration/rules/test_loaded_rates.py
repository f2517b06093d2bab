"""Optimizers that load a state: whose learning rate they then use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

BEGIN = (
    HEAD
    + """
import io
def train(model, optimizer, steps=3, after=lambda: None):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        after()
model = nn.Linear(4, 1)
"""
)
FAULTY = {
    "from a file": """
opt = torch.optim.Adam(model.parameters(), lr=0.01)
train(model, opt)
file = io.BytesIO()
torch.save({"optimizer": opt.state_dict()}, file)
file.seek(0)
fine = torch.optim.Adam(model.parameters(), lr=1e-4)
fine.load_state_dict(torch.load(file)["optimizer"])  # HERE
train(model, fine)
""",
    "in a function": """
def stage(model, lr, state=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    if state is not None:
        optimizer.load_state_dict(state)  # HERE
    train(model, optimizer)
    return optimizer.state_dict()
stage(model, 0.001, stage(model, 0.1))
""",
    "in a class": """
class Trainer:
    def __init__(self, model, lr):
        self.model, self.opt = model, torch.optim.AdamW(model.parameters(), lr=lr)
    def resume(self, state):
        self.opt.load_state_dict(state)  # HERE
    def fit(self):
        train(self.model, self.opt)
one = Trainer(model, 0.1)
one.fit()
two = Trainer(copy.deepcopy(model), 0.001)
two.resume(one.opt.state_dict())
two.fit()
""",
}
HEALTHY = {
    "the rate is set": """
opt = torch.optim.Adam(model.parameters(), lr=0.01)
train(model, opt)
fine = torch.optim.Adam(model.parameters(), lr=1e-4)
fine.load_state_dict(opt.state_dict())
for group in fine.param_groups:
    group["lr"] = 1e-4
train(model, fine)
""",
    "the same rate": """
opt = torch.optim.Adam(model.parameters(), lr=0.01)
train(model, opt)
more = torch.optim.Adam(model.parameters(), lr=0.01)
more.load_state_dict(opt.state_dict())
train(model, more)
""",
    "a rate that a schedule lowered": """
opt = torch.optim.Adam(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.5)
train(model, opt, after=schedule.step)
more = torch.optim.Adam(model.parameters(), lr=0.01)
more.load_state_dict(opt.state_dict())
train(model, more)
""",
    "a state of a population": """
one = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
other_model = copy.deepcopy(model)
two = torch.optim.SGD(other_model.parameters(), lr=0.05, momentum=0.9)
train(model, one)
train(other_model, two)
two.load_state_dict(one.state_dict())
train(other_model, two)
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_rate_that_a_loaded_state_replaces_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(BEGIN + FAULTY[name], "rate_of_loaded_state", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_rates_that_go_on_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(BEGIN + HEALTHY[name], tmp_path)
