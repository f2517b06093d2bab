"""Units that are dead because of weights that the program computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

FAULTS = {
    "weights that are computed on one side of zero": (
        "dead_relu",
        """\
kernel = torch.rand(6, 8) * 0.4 - 0.4
offset = torch.rand(8) * 0.4 - 0.4  # HERE
last = torch.randn(8, 1)
for p in (kernel, offset, last):
    p.requires_grad_()
optimizer = torch.optim.SGD([kernel, offset, last], lr=0.1)
for step in range(3):
    x = torch.rand(16, 6)
    loss = ((x @ kernel + offset).clamp_min(0) @ last - x[:, :1]).square().mean()"""
        + TRAIN,
    ),
    "the same with addmm": (
        "dead_relu",
        """\
kernel = torch.rand(6, 8) * 0.4 - 0.4
offset = torch.rand(8) * 0.4 - 0.4  # HERE
last = torch.randn(8, 1)
for p in (kernel, offset, last):
    p.requires_grad_()
optimizer = torch.optim.SGD([kernel, offset, last], lr=0.1)
for step in range(3):
    x = torch.rand(16, 6)
    loss = (torch.addmm(offset, x, kernel).relu() @ last - x[:, :1]).square().mean()"""
        + TRAIN,
    ),
    "filters that a function computes, for inputs below zero": (
        "dead_relu",
        """\
def bank(n, m):
    each = (torch.arange(n)[:, None] - torch.arange(m)).abs().float()
    return each / each.sum(1, keepdim=True)
class Filters(nn.Module):
    def __init__(self):
        super().__init__()
        self.bank = nn.Parameter(bank(8, 6))  # HERE
        self.last = nn.Linear(8, 1)
    def forward(self, x):
        return self.last(torch.einsum("fi,ni->nf", self.bank, x).clamp_min(0))
model = Filters()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = -torch.rand(16, 6)
    loss = (model(x) - x[:, :1]).square().mean()"""
        + TRAIN,
    ),
}
HEALTHY = {
    "filters that a function computes, for inputs around zero": """\
def bank(n, m):
    each = (torch.arange(n)[:, None] - torch.arange(m)).abs().float()
    return each / each.sum(1, keepdim=True)
kernel = nn.Parameter(bank(8, 6))
last = nn.Linear(8, 1)
optimizer = torch.optim.SGD([kernel, *last.parameters()], lr=0.01)
for step in range(3):
    x = torch.randn(16, 6)
    loss = (last(torch.einsum("fi,ni->nf", kernel, x).clamp_min(0)) - x[:, :1]).square().mean()"""
    + TRAIN,
    "weights that are computed around zero": """\
kernel = torch.rand(6, 8) * 0.8 - 0.4
offset = torch.rand(8) * 0.8 - 0.4
last = torch.randn(8, 1)
for p in (kernel, offset, last):
    p.requires_grad_()
optimizer = torch.optim.SGD([kernel, offset, last], lr=0.01)
for step in range(3):
    x = torch.rand(16, 6)
    loss = (torch.addmm(offset, x, kernel).relu() @ last - x[:, :1]).square().mean()"""
    + TRAIN,
}


@pytest.mark.parametrize("case", FAULTS)
def test_the_line_is_told(case: str, tmp_path: Path) -> None:
    cause, script = FAULTS[case]
    assert_first_alarm(HEAD + script, cause, tmp_path)


@pytest.mark.parametrize("case", HEALTHY)
def test_what_looks_alike_and_is_meant_is_quiet(case: str, tmp_path: Path) -> None:
    assert alarms(HEAD + HEALTHY[case], tmp_path) == []
