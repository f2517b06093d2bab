"""Tensors that are put beside others, and that a mask hides."""

from __future__ import annotations

from pathlib import Path

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PROMPTED = (
    HEAD
    + """
table = nn.Embedding(30, 8).requires_grad_(False)
prompt, head = nn.Parameter(torch.randn(3, 8)), nn.Linear(8, 2)
optimizer = torch.optim.Adam([prompt, *head.parameters()], lr=0.01)
for step in range(5):
    ids, mask = torch.randint(1, 30, (16, 6)), torch.rand(16, 6) < 0.8
    mask[:, 0] = True
    h = torch.cat([prompt.expand(16, -1, -1), table(ids)], 1)
    {lines}
    pooled = (torch.tanh(h) * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
    loss = F.cross_entropy(head(pooled), (ids[:, 0] > 15).long())
"""
    + TRAIN
)


def test_a_prompt_that_a_mask_hides_is_told_where_the_mask_is_made(tmp_path: Path) -> None:
    assert_first_alarm(PROMPTED.format(lines="mask = F.pad(mask, (3, 0))  # HERE"), "masked_out", tmp_path)
    zeros = "mask = torch.cat([torch.zeros(16, 3, dtype=torch.bool), mask], 1)  # HERE"
    assert_first_alarm(PROMPTED.format(lines=zeros), "masked_out", tmp_path)


def test_a_prompt_that_a_mask_shows_is_right(tmp_path: Path) -> None:
    assert not alarms(PROMPTED.format(lines="mask = F.pad(mask, (3, 0), value=True)"), tmp_path)
