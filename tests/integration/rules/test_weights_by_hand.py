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
}
HEALTHY = {
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
