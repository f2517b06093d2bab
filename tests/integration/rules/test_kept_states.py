"""States of optimizers and models that are kept and loaded: whether they are copies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

BEGIN = (
    HEAD
    + """
import io
def train(model, optimizer, steps=3):
    for _ in range(steps):
        optimizer.zero_grad()
        (model(torch.randn(8, 4)) - 1).square().mean().backward()
        optimizer.step()
model = nn.Linear(4, 1)
opt = torch.optim.Adam(model.parameters(), lr=0.01)
"""
)
FOLLOWS = """
online, target = nn.Linear(4, 1), nn.Linear(4, 1)
opt = torch.optim.Adam(online.parameters(), lr=0.01)
for step in range(4):
    if step % 2 == 0:
        {}
    x = torch.randn(8, 4)
    with torch.no_grad():
        wanted = 1 + 0.9 * target(x)
    loss = F.smooth_l1_loss(online(x), wanted)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
FAULTY = {
    "in a dict": """
def restore(kept):
    opt.load_state_dict(kept["opt"])
train(model, opt)
kept = {"opt": opt.state_dict()}  # HERE
train(model, opt)
restore(kept)
train(model, opt)
""",
    "in an attribute": """
class Guard:
    def __init__(self, optimizer):
        self.optimizer = optimizer
    def save(self):
        self.state = self.optimizer.state_dict()  # HERE
    def restore(self):
        self.optimizer.load_state_dict(self.state)
guard = Guard(opt)
train(model, opt)
guard.save()
train(model, opt)
guard.restore()
train(model, opt)
""",
    "around a step": """
for step in range(4):
    opt.zero_grad()
    loss = model(torch.randn(8, 4)).square().mean()
    loss.backward()
    if step:
        before = opt.state_dict()  # HERE
    opt.step()
    if step == 2:
        opt.load_state_dict(before)
""",
    "a target that gets the parameters": FOLLOWS.format(
        "target.load_state_dict(online.state_dict(), assign=True)  # HERE"
    ),
}
HEALTHY = {
    "a copy": """
train(model, opt)
kept = copy.deepcopy(opt.state_dict())
train(model, opt)
opt.load_state_dict(kept)
train(model, opt)
""",
    "kept before the first step": """
fresh = opt.state_dict()
for fold in range(2):
    opt.load_state_dict(fresh)
    train(model, opt)
""",
    "changed and given back at once": """
train(model, opt)
state = opt.state_dict()
state["param_groups"][0]["lr"] = 0.001
opt.load_state_dict(state)
train(model, opt)
""",
    "from a file": """
train(model, opt)
file = io.BytesIO()
torch.save({"opt": opt.state_dict()}, file)
train(model, opt)
file.seek(0)
opt.load_state_dict(torch.load(file)["opt"])
train(model, opt)
""",
    "an optimizer without a state": """
opt = torch.optim.SGD(model.parameters(), lr=0.01)
train(model, opt)
kept = opt.state_dict()
train(model, opt)
opt.load_state_dict(kept)
train(model, opt)
""",
    "a target that gets copies": FOLLOWS.format(
        "target.load_state_dict(copy.deepcopy(online.state_dict()), assign=True)"
    ),
    "a target whose values are copied": FOLLOWS.format("target.load_state_dict(online.state_dict())"),
    "a model that takes the place of another one": """
train(model, opt)
other = nn.Linear(4, 1)
other.load_state_dict(model.state_dict(), assign=True)
del model, opt
train(other, torch.optim.SGD(other.parameters(), lr=0.01))
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_state_that_is_no_copy_is_told_where_it_is_kept(name: str, tmp_path: Path) -> None:
    assert_first_alarm(BEGIN + FAULTY[name], "copied_onto_itself", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_states_that_are_copies_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(BEGIN + HEALTHY[name], tmp_path)
