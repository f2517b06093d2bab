"""Losses that take the best of several orders: for a batch, or for each of its samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SEPARATE = """
import itertools
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2 * 8))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
def snr(made, wanted):
    made = made - made.mean(-1, keepdim=True)
    part = (made * wanted).sum(-1, keepdim=True) * wanted / wanted.square().sum(-1, keepdim=True)
    return torch.log(part.square().sum(-1) / (made - part).square().sum(-1))
for step in range(4):
    parts = torch.randn({n}, 2, 8)
    made = net(parts.sum(1)).view({n}, 2, 8)
    {body}
"""
ORDERS = "scores = [{score} for p in itertools.permutations(range(2))]\n"
ONE, TWO = "made[:, 0], made[:, 1]", "parts[:, 0], parts[:, 1]"
UNBOUND = f"a, b = {ONE}\n    x, y = {TWO}\n    "
FAULTY = (
    SEPARATE.format(n=6, body=ORDERS.format(score="-snr(made[:, list(p)], parts).mean()")
                    + "    loss = torch.stack(scores).min()  # HERE"),
    SEPARATE.format(n=6, body=ORDERS.format(score="snr(made, parts[:, list(p)]).mean()")
                    + "    loss = -torch.stack(scores).max(dim=0).values  # HERE"),
    SEPARATE.format(n=6, body=UNBOUND + "straight = F.mse_loss(a, x) + F.mse_loss(b, y)\n"
                    "    loss = torch.min(straight, F.mse_loss(a, y) + F.mse_loss(b, x))  # HERE"),
)  # fmt: skip
HEALTHY = (
    SEPARATE.format(n=6, body=ORDERS.format(score="-snr(made[:, list(p)], parts).mean(1)")
                    + "    loss = torch.stack(scores, 1).min(1).values.mean()"),
    SEPARATE.format(n=6, body="def best(made, parts):\n"
                    "        return torch.stack([-snr(made[list(p)], parts).mean() for p in ((0, 1), (1, 0))]).min()\n"
                    "    loss = torch.stack([best(m, p) for m, p in zip(made, parts)]).mean()"),
    SEPARATE.format(n=6, body=UNBOUND + "loss = torch.max(F.mse_loss(a, x), F.mse_loss(b, y))"),
    SEPARATE.format(n=6, body=UNBOUND + "loss = torch.min(F.mse_loss(a, x), F.mse_loss(b, x))"),
    SEPARATE.format(n=6, body="group = torch.arange(6) % 2\n    each = (made - parts).square().mean((1, 2))\n"
                    "    loss = torch.stack([each[group == k].mean() for k in range(2)]).max()"),
    SEPARATE.format(n=6, body="y, logits = torch.arange(6) % 3, made.flatten(1)[:, :3]\n    "
                    + "scores = [F.cross_entropy(logits[:, list(p)], y) for p in itertools.permutations(range(3))]\n"
                    "    loss = torch.stack(scores).min()"),
    SEPARATE.format(n=1, body=ORDERS.format(score="-snr(made[:, list(p)], parts).mean()")
                    + "    loss = torch.stack(scores).min()"),
)  # fmt: skip


@pytest.mark.parametrize("script", FAULTY)
def test_one_order_for_a_whole_batch_is_told(script: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + script + TRAIN, "assigned_as_a_whole", tmp_path)


@pytest.mark.parametrize("script", HEALTHY)
def test_other_choices_are_right(script: str, tmp_path: Path) -> None:
    assert "assigned_as_a_whole" not in {each.cause for each in alarms(HEAD + script + TRAIN, tmp_path)}
