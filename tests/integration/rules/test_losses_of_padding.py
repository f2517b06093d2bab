"""Errors of tokens that are kept with a mask: those of the text, or those of its padding."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PAD = """
embed, mix, head = nn.Embedding(20, 8, padding_idx=0), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 20)
optimizer = torch.optim.Adam([*embed.parameters(), *mix.parameters(), *head.parameters()], lr=0.01)
for step in range(4):
    tokens = torch.randint(1, 20, (8, 10))
    tokens[:, 7:] = 0
    given, wanted = tokens[:, :-1], tokens[:, 1:]
    logits = head(mix(embed(given))[0])
    errors = F.cross_entropy(logits.reshape(-1, 20), wanted.reshape(-1), reduction="none")
"""
FAULTY = (
    "    pad = wanted == 0  # HERE\n    loss = (errors.view_as(wanted) * pad).sum() / pad.sum()",
    "    loss = errors[wanted.reshape(-1).eq(0)].mean()  # HERE",
    "    keep = wanted.ne(0)  # HERE\n    loss = (errors * (~keep).float().flatten()).sum() / 16",
)
HEALTHY = (
    "    pad = wanted == 0\n    loss = (errors.view_as(wanted) * ~pad).sum() / (~pad).sum()",
    "    loss = errors[wanted.reshape(-1) != 0].mean()",
    # Errors of one word alone, which is no padding.
    "    loss = (errors * (wanted == 3).flatten()).sum() / 16 + errors[wanted.flatten() != 0].mean()",
)


@pytest.mark.parametrize("loss", FAULTY)
def test_a_loss_that_counts_only_padding_is_told(loss: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + PAD + loss + TRAIN, "inverted_mask", tmp_path)


@pytest.mark.parametrize("loss", HEALTHY)
def test_a_loss_that_leaves_padding_out_is_right(loss: str, tmp_path: Path) -> None:
    assert alarms(HEAD + PAD + loss + TRAIN, tmp_path) == []
