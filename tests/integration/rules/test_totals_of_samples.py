"""Totals over all samples that are added to a value of each sample."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SUM_OVER_BATCH = "sum_over_batch"
FLOW = """
nets = nn.ModuleList(nn.Sequential(nn.Linear(1, 6), nn.Tanh(), nn.Linear(6, 2)) for _ in range(2))
optimizer = torch.optim.SGD(nets.parameters(), lr=1e-4)

def coupling(net, x):
    a, b = x.chunk(2, 1)
    s, t = net(a).chunk(2, 1)
    {summed}
    return torch.cat([b * s.exp() + t, a], 1), log_det

for step in range(3):
    z, total = torch.randn(16, 2), {start}
    for net in nets:
        z, log_det = coupling(net, z)
        {added}
    loss = -(-0.5 * z.square().sum(1) + total).mean()
"""
TOTALS = (
    ("log_det = s.sum()  # HERE", "0.0", "total = total + log_det"),
    ("log_det = torch.sum(torch.tanh(s))  # HERE", "torch.zeros(())", "total += log_det"),
    ("log_det = -(-s).sum()  # HERE", "0", "total = log_det + total"),
    ("log_det = s.sum()  # HERE", "torch.zeros(16)", "total = total + log_det"),
)
OF_EACH_SAMPLE = (
    ("log_det = s.sum(1)", "0.0", "total = total + log_det"),
    ("log_det = s.sum() / len(x)", "0.0", "total = total + log_det"),
    ("log_det = s.sum() * (1 / s.numel())", "0.0", "total = total + log_det"),
    ("log_det = s.mean()", "0.0", "total = total + log_det"),
    ("log_det = s.flatten(1).sum(-1)", "torch.zeros(16)", "total = total + log_det"),
    ("log_det = 1e-3 * net[0].weight.square().sum()", "0.0", "total = total + log_det"),
)


def flow(summed: str, start: str, added: str) -> str:
    return HEAD + FLOW.format(summed=summed, start=start, added=added) + TRAIN


@pytest.mark.parametrize(("summed", "start", "added"), TOTALS)
def test_log_determinants_of_all_samples_together_are_told(summed: str, start: str, added: str, tmp_path: Path) -> None:
    assert_first_alarm(flow(summed, start, added), SUM_OVER_BATCH, tmp_path)


@pytest.mark.parametrize(("summed", "start", "added"), OF_EACH_SAMPLE)
def test_one_of_each_sample_is_right_and_so_are_means_and_penalties(
    summed: str, start: str, added: str, tmp_path: Path
) -> None:
    assert SUM_OVER_BATCH not in {each.cause for each in alarms(flow(summed, start, added), tmp_path)}
