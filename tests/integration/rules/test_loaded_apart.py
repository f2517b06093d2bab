"""Loaders of inputs and of targets, each with an order of its own, and loaders that belong together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

PROGRAM = (
    HEAD
    + """
from torch.utils.data import DataLoader, TensorDataset
x = torch.randn(96, 6)
y = (x[:, 0] > 0).long()
other, others = torch.randn(96, 6), torch.randint(0, 2, (96,))
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
{loaders}
for epoch in range(2):
    for {names} in {batches}:
        loss = {loss}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
)
BOTH = "inputs = DataLoader(x, batch_size=16, shuffle=True)\n{} = DataLoader(y, batch_size=16, shuffle=True)  # HERE"
PAIRED = "F.cross_entropy(net(a), b)"


@pytest.mark.parametrize(
    ("loaders", "batches"),
    [
        (BOTH.format("labels"), "zip(inputs, labels)"),
        ("inputs = DataLoader(x, 16, shuffle=True)\n"
         "labels = DataLoader(y, sampler=torch.utils.data.RandomSampler(y), batch_size=16)  # HERE",
         "zip(inputs, labels, strict=True)"),
    ],
)  # fmt: skip
def test_two_loaders_that_shuffle_are_told(loaders: str, batches: str, tmp_path: Path) -> None:
    script = PROGRAM.format(loaders=loaders, names="a, b", batches=batches, loss=PAIRED)
    assert_first_alarm(script, "shuffled_apart", tmp_path)


@pytest.mark.parametrize(
    ("loaders", "names", "batches", "loss"),
    [
        ("inputs, labels = DataLoader(x, batch_size=16), DataLoader(y, batch_size=16)", "a, b", "zip(inputs, labels)",
         PAIRED),
        ("pairs = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)", "a, b", "pairs", PAIRED),
        ("one = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)\n"
         "two = DataLoader(TensorDataset(other, others), batch_size=16, shuffle=True)", "(a, b), (c, d)",
         "zip(one, two)", PAIRED + " + 0.5 * F.cross_entropy(net(c), d)"),
        ("one = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)\n"
         "two = DataLoader(other, batch_size=16, shuffle=True)", "(a, b), c",
         "zip(one, two)", PAIRED + " + F.mse_loss(net[:2](a).mean(0), net[:2](c).detach().mean(dim=0))"),
        ("one = DataLoader(x, batch_size=16, shuffle=True)\n"
         "two = DataLoader(other[:, :2], batch_size=16, shuffle=True)", "a, c",
         "zip(one, two)", "F.mse_loss(net(a).sort(dim=0).values, c.sort(dim=0).values)"),
    ],
    ids=["in order", "one loader", "two domains", "means of two domains", "sorted values of two sets"],
)  # fmt: skip
def test_loaders_that_belong_together_are_right(
    loaders: str, names: str, batches: str, loss: str, tmp_path: Path
) -> None:
    assert not alarms(PROGRAM.format(loaders=loaders, names=names, batches=batches, loss=loss), tmp_path)
