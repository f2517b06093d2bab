"""Contrastive losses with labels: whether a sample is among its own positives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

LOSS = """
model = nn.Linear(6, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
away = torch.scatter(torch.ones(16, 16), 1, torch.arange(16)[:, None], 0)
for step in range(4):
    x, labels = torch.randn(16, 6), torch.randint(0, 4, (16,))
    z = F.normalize(model(x), dim=1)
    s = z @ z.T / 0.2
    {mask}
    {loss}
"""
EXPONENTIALS = """s = s - s.max(dim=1, keepdim=True).values.detach()
    log_prob = s - torch.log((s.exp() * away).sum(1, keepdim=True))
    loss = -((mask * log_prob).sum(1) / mask.sum(1).clamp(min=1)).mean()"""
CHOSEN = """log_prob = s - s.masked_fill(away == 0, -1e9).logsumexp(1, keepdim=True)
    loss = -log_prob[mask.bool()].mean()"""
LATER = """log_prob = s - s.masked_fill(away == 0, -1e9).logsumexp(1, keepdim=True)
    loss = -((mask * log_prob * away).sum(1) / (mask * away).sum(1).clamp(min=1)).mean()"""
SUBTRACTED = """log_prob = s - s.masked_fill(away == 0, -1e9).logsumexp(1, keepdim=True)
    loss = -(((mask * log_prob).sum(1) - log_prob.diagonal()) / (mask.sum(1) - 1).clamp(min=1)).mean()"""
EMPTY = """log_prob = (s - s.masked_fill(away == 0, -1e9).logsumexp(1, keepdim=True)) * away
    loss = -((mask * log_prob).sum(1) / (mask.sum(1) - 1).clamp(min=1)).mean()"""
SHARES = """shares = s.masked_fill(away == 0, float("-inf")).softmax(dim=1)
    loss = -torch.log((shares * mask).sum(1) + 1e-6).mean()"""
ALL = "mask = torch.eq(labels.view(-1, 1), labels.view(1, -1)).float()  # HERE"


@pytest.mark.parametrize(
    ("mask", "loss"),
    [(ALL, EXPONENTIALS), ("mask = (labels[:, None] == labels[None]).to(torch.float32)  # HERE", CHOSEN)],
)
def test_an_anchor_among_its_positives_is_told(mask: str, loss: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + LOSS.format(mask=mask, loss=loss) + TRAIN, "anchor_among_positives", tmp_path)


@pytest.mark.parametrize(
    ("mask", "loss"),
    [
        (ALL + "\n    mask = mask * away", EXPONENTIALS),
        (ALL + "\n    mask.fill_diagonal_(0)", EXPONENTIALS),
        ("mask = (labels[:, None] == labels[None]) & (away > 0)", CHOSEN),
        (ALL, LATER),
        (ALL, SUBTRACTED),
        (ALL, EMPTY),
        (ALL, SHARES),
    ],
    ids=["multiplied", "filled", "and", "later", "subtracted", "empty diagonal", "shares of the others"],
)
def test_positives_without_the_anchor_are_right(mask: str, loss: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + LOSS.format(mask=mask, loss=loss) + TRAIN, tmp_path)
