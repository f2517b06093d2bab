"""Parameters of which a program keeps only what it computed from them right after they were made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

NON_LEAF = "non_leaf"
NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3).double()
        {made}

    def forward(self, x):
        return self.linear(x) + {used}

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = net(torch.randn(4, 3).double()).square().mean()
"""
LOST = (
    "self.rate = nn.Parameter(torch.ones(3)).double()  # HERE",
    "self.rate = nn.Parameter(torch.ones(3)).to(torch.float64)  # HERE",
    "self.rate = nn.Parameter(torch.zeros(3, dtype=torch.double)) - 0.5  # HERE",
    "self.rate = nn.Parameter(torch.ones(3, dtype=torch.double)).clone()  # HERE",
    "self.rate = torch.ones(1, 3, requires_grad=True).double().squeeze(0)  # HERE",
    "rate = nn.Parameter(torch.randn(3))\n        rate = rate.to(torch.double)  # HERE\n        self.rate = rate",
    "self.register_buffer('rate', nn.Parameter(torch.ones(3)).double())  # HERE",
)
KEPT = (
    ("self.rate = nn.Parameter(torch.ones(3).double())", "self.rate"),
    ("self.rate = nn.Parameter(torch.ones(3)).requires_grad_(True)", "self.rate.double()"),
    ("self.rate = nn.Parameter(torch.ones(3).double()).to(torch.float64)", "self.rate"),
    ("self.rate = nn.Parameter(torch.ones(3)).double().detach()", "self.rate"),
    ("self.rate = nn.Parameter(torch.ones(3), requires_grad=False).double()", "self.rate"),
)


@pytest.mark.parametrize("made", LOST)
def test_an_attribute_that_is_a_result_of_a_parameter_is_told(made: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + NET.format(made=made, used="self.rate") + TRAIN, NON_LEAF, tmp_path)


@pytest.mark.parametrize(("made", "used"), KEPT)
def test_parameters_of_what_was_computed_are_right(made: str, used: str, tmp_path: Path) -> None:
    assert NON_LEAF not in causes(HEAD + NET.format(made=made, used=used) + TRAIN, tmp_path)


SCRIPT = """
net = nn.Linear(3, 1).double()
rate = nn.Parameter(torch.zeros(1)).double()  # HERE
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(8, 3).double()
    loss = (net(x) + rate - x.sum(1, keepdim=True)).square().mean()
"""
POINTS = """
net = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1)).double()
x = torch.rand(8, 1, requires_grad=True).double()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    u = net(x)
    u_x, = torch.autograd.grad(u.sum(), x, create_graph=True)
    loss = (u_x + u).square().mean()
"""
PICTURE = """
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
x = torch.rand(8, 4, requires_grad=True) * 2
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = net(x).square().mean()
"""


def test_a_variable_that_is_a_result_of_a_parameter_is_told(tmp_path: Path) -> None:
    assert_first_alarm(HEAD + SCRIPT + TRAIN, NON_LEAF, tmp_path)


@pytest.mark.parametrize("script", [POINTS, PICTURE])
def test_inputs_that_require_grad_need_no_step(script: str, tmp_path: Path) -> None:
    assert NON_LEAF not in causes(HEAD + script + TRAIN, tmp_path)


def causes(script: str, folder: Path) -> set[str]:
    return {finding.cause for finding in alarms(script, folder)}
