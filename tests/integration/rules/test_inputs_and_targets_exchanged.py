"""Language models whose inputs and targets are exchanged: the target of each position lies before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import alarms, assert_first_alarm

SCRIPT = """
import torch
from torch import nn
torch.manual_seed(0)
data = torch.randint(0, 9, (400,))
embed, layer, head = nn.Embedding(9, 12), nn.GRU(12, 16, batch_first=True), nn.Linear(16, 9)
optimizer = torch.optim.Adam([*embed.parameters(), *layer.parameters(), *head.parameters()], lr=0.01)
def windows(n):
    start = torch.randint(0, 380, (n,)).tolist()
    chunk = torch.stack([data[i : i + 13] for i in start])
    CUT
for step in range(8):
    tokens, targets = windows(8)
    hidden = layer(embed(tokens))[0]
    loss = nn.functional.cross_entropy(head(hidden).flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_the_line_that_cuts_both_is_told(tmp_path: Path) -> None:
    script = SCRIPT.replace("CUT", "return chunk[:, 1:], chunk[:, :-1]  # HERE")
    assert_first_alarm(script, "targets_are_inputs", tmp_path)


@pytest.mark.parametrize(
    ("cut", "read"),
    [
        ("return chunk[:, :-1], chunk[:, 1:]", "layer(embed(tokens))[0]"),
        ("return chunk[:, 1:], chunk[:, :-1]", "layer(embed(tokens.flip(1)))[0].flip(1)"),
    ],
)
def test_the_next_token_and_reading_backwards_raise_no_alarm(cut: str, read: str, tmp_path: Path) -> None:
    script = SCRIPT.replace("CUT", cut).replace("layer(embed(tokens))[0]", read)
    assert [f"{each.cause}: {each.message}" for each in alarms(script, tmp_path)] == []
