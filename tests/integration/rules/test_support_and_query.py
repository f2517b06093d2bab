"""Outer losses of meta learning that are computed with the samples of the inner one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

META = (
    HEAD
    + """
from torch.func import functional_call
model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

def draw(n, centre):
    x = torch.randn(n, 2)
    return x, torch.cdist(x, centre).argmin(1)

def adapted(x, y):
    params = dict(model.named_parameters())
    for _ in range(2):
        loss = F.cross_entropy(functional_call(model, params, (x,)), y)
        slopes = torch.autograd.grad(loss, list(params.values()), create_graph=True)
        params = {n: p - 0.1 * g for (n, p), g in zip(params.items(), slopes)}
    return params

for step in range(4):
    total = 0.0
    for task in range(3):
        centre = torch.randn(3, 2)
        SAMPLES
        params = adapted(xs, ys)
        OUTER
    loss = total / 3
"""
    + TRAIN
)
TWO_DRAWS = "xs, ys = draw(8, centre)\n        xq, yq = draw(12, centre)"
SLICES = "x, y = draw(20, centre)\n        xs, ys, xq, yq = x[:8], y[:8], x[8:], y[8:]"
PARTS = "x, y = draw(20, centre)\n        (xs, xq), (ys, yq) = x.split([8, 12]), y.split([8, 12])"
SUPPORT = "total = total + F.cross_entropy(functional_call(model, params, (xs,)), ys)"
QUERY = SUPPORT.replace("xs", "xq").replace("ys", "yq")


def of_tasks(samples: str, outer: str) -> str:
    return META.replace("SAMPLES", samples).replace("OUTER", outer)


@pytest.mark.parametrize("samples", [TWO_DRAWS, SLICES, PARTS], ids=["two draws", "slices", "parts"])
def test_an_outer_loss_of_the_support_is_told(samples: str, tmp_path: Path) -> None:
    assert_first_alarm(of_tasks(samples, f"{SUPPORT}  # HERE"), "outer_loss_of_support", tmp_path)


@pytest.mark.parametrize(
    ("samples", "outer"),
    [
        (TWO_DRAWS, QUERY),
        (SLICES, QUERY),
        (PARTS, QUERY),
        ("xs, ys = draw(8, centre)", SUPPORT),
        (TWO_DRAWS, f"{SUPPORT}\n        {QUERY}"),
        (
            TWO_DRAWS,
            f"{SUPPORT}\n        with torch.no_grad():\n"
            "            print(F.cross_entropy(functional_call(model, params, (xq,)), yq))",
        ),
    ],
    ids=["two draws", "slices", "parts", "no query", "both", "query to evaluate"],
)
def test_outer_losses_with_all_samples_that_there_are_are_right(samples: str, outer: str, tmp_path: Path) -> None:
    assert not alarms(of_tasks(samples, outer), tmp_path)
