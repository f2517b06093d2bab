"""Ensembles whose members are one and the same network."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

DATA = (
    HEAD
    + """
x, y = torch.randn(60, 4), torch.randint(0, 3, (60,))
def fit(net, rows=None):
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(6):
        i = torch.randint(0, 60, (20,)) if rows is None else rows
        loss = F.cross_entropy(net(x[i]), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net
def make():
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
"""
)
IN_FUNCTION = """
def set_seed(seed):
    import random
    random.seed(seed)
    torch.manual_seed(seed)
def member(seed):
    set_seed(seed)  # HERE
    return fit(make())
nets = [member({seed}) for k in range(3)]
"""
IN_LOOP = """
nets = []
for k in range(3):
    torch.manual_seed({seed})  # HERE
    nets.append(fit(make()))
"""
COPIES = """
base, rows = make(), torch.arange(30)
nets = [fit(copy.deepcopy(base), rows) for k in range(3)]  # HERE
"""
METHODS = """
class Ensemble:
    def __init__(self, size):
        self.size, self.nets = size, []
    def train_one(self):
        torch.manual_seed(7)  # HERE
        net = make()
        return fit(net)
    def run(self):
        torch.manual_seed(1)
        for k in range(self.size):
            self.nets.append(self.train_one())
    def predict(self, x):
        return torch.cat([net(x)[None] for net in self.nets]).mean(0)
ensemble = Ensemble(2)
ensemble.run()
print(ensemble.predict(x).detach().argmax(1).eq(y).float().mean())
"""
MEAN = """
with torch.no_grad():
    probs = torch.stack([net(x).softmax(1) for net in nets])
    print(probs.mean(0).argmax(1).eq(y).float().mean(), probs.var(0).mean())
"""
SUM = """
with torch.no_grad():
    print((sum(net(x) for net in nets) / 3).argmax(1).eq(y).float().mean())
"""
VOTES = """
with torch.no_grad():
    print(torch.stack([net(x).argmax(1) for net in nets]).mode(0).values.eq(y).float().mean())
"""


@pytest.mark.parametrize("join", [MEAN, SUM, VOTES])
@pytest.mark.parametrize("members", [IN_FUNCTION, IN_LOOP])
def test_members_of_one_seed_are_told(members: str, join: str, tmp_path: Path) -> None:
    assert_first_alarm(DATA + members.format(seed=42) + join, "members_are_alike", tmp_path)


@pytest.mark.parametrize("join", [MEAN, VOTES])
@pytest.mark.parametrize("members", [IN_FUNCTION, IN_LOOP])
def test_members_of_other_seeds_are_right(members: str, join: str, tmp_path: Path) -> None:
    assert not alarms(DATA + members.format(seed="42 + k") + join, tmp_path)


def test_copies_that_are_trained_alike_are_told(tmp_path: Path) -> None:
    assert_first_alarm(DATA + COPIES + MEAN, "members_are_alike", tmp_path)


JOINT = """
class Ensemble(nn.Module):
    def __init__(self, base, size):
        super().__init__()
        self.members = nn.ModuleList([{member} for k in range(size)])  # HERE
    def forward(self, x):
        return torch.stack([member(x) for member in self.members], dim=1)
net = Ensemble(make(), 3)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(5):
    loss = sum(F.cross_entropy(each, y) for each in net(x).unbind(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_copies_that_are_trained_together_are_told(tmp_path: Path) -> None:
    assert_first_alarm(DATA + JOINT.format(member="copy.deepcopy(base)"), "members_are_alike", tmp_path)
    assert not alarms(DATA + JOINT.format(member="make()"), tmp_path)


def test_members_that_are_made_by_methods_are_told(tmp_path: Path) -> None:
    assert_first_alarm(DATA + METHODS, "members_are_alike", tmp_path)


@pytest.mark.parametrize(
    "script",
    [
        # One seed, and other samples for each member.
        "nets = []\nfor k in range(3):\n    torch.manual_seed(0)\n"
        "    nets.append(fit(make(), torch.arange(20) + 20 * k))\n" + MEAN,
        # A target network that was just copied.
        "net = fit(make())\ntarget = copy.deepcopy(net)\nwith torch.no_grad():\n"
        "    print(torch.stack([net(x), target(x)]).mean(0).sum())\n",
        # One network, several times.
        "net = fit(make())\nwith torch.no_grad():\n    print(torch.stack([net(x), net(x)]).mean(0).sum())\n",
        # Whether a training can be repeated.
        "runs = []\nfor k in range(2):\n    torch.manual_seed(0)\n    runs.append(fit(make()))\n"
        "with torch.no_grad():\n    print((runs[0](x) - runs[1](x)).abs().max())\n",
        "runs = []\nfor k in range(2):\n    torch.manual_seed(0)\n    runs.append(fit(make()))\n"
        "with torch.no_grad():\n    both = torch.stack([run(x) for run in runs])\n"
        "    assert torch.equal(both[0], both[1])\n    print((both - both[0]).abs().max())\n",
    ],
)
def test_networks_that_are_alike_on_purpose_are_right(script: str, tmp_path: Path) -> None:
    assert not alarms(DATA + script, tmp_path)
