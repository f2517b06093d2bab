"""Sums of losses without the padding, and the number of tokens that they are divided by."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import alarms, assert_first_alarm

SCRIPT = """
import math
import torch
from torch import nn
F = nn.functional
torch.manual_seed(0)
PAD = 0
embedding, out = nn.Embedding(9, 12, padding_idx=PAD), nn.Linear(12, 9)
optimizer = torch.optim.Adam([*embedding.parameters(), *out.parameters()], lr=0.01)
ids = torch.randint(1, 9, (32, 11))
for row, length in enumerate(torch.randint(4, 11, (32,)).tolist()):
    ids[row, length:] = PAD
def perplexity():
    nll, tokens = 0.0, 0
    with torch.no_grad():
        for x, y in zip(ids[:, :-1].split(8), ids[:, 1:].split(8)):
            logits = out(embedding(x)).flatten(0, 1)
            COUNT
    return math.exp(nll / tokens)
for step in range(8):
    x, y = ids[:, :-1], ids[:, 1:]
    loss = F.cross_entropy(out(embedding(x)).flatten(0, 1), y.flatten(), ignore_index=PAD)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(perplexity())
"""
SUM = 'nll += F.cross_entropy(logits, y.flatten(), ignore_index=PAD, reduction="sum").item()\n            '


@pytest.mark.parametrize(
    "count",
    [
        SUM + "tokens += y.numel()  # HERE",
        SUM + "tokens += y.size(0) * y.size(1)  # HERE",
        'nll += F.cross_entropy(logits, y.flatten(), ignore_index=PAD, reduction="sum").item() / y.numel()  # HERE\n'
        "            tokens += 1",
    ],
)
def test_a_count_with_the_padding_is_told(count: str, tmp_path: Path) -> None:
    assert_first_alarm(SCRIPT.replace("COUNT", count), "padding_in_count", tmp_path)


@pytest.mark.parametrize(
    "count",
    [
        SUM + "tokens += (y != PAD).sum().item()",
        SUM + "real = y[y != PAD]\n            tokens += real.numel()",
        SUM + "seen = y.numel()\n            tokens += int(y.ne(PAD).sum())",
        "nll += F.cross_entropy(logits, y.flatten(), ignore_index=PAD).item()\n            tokens += 1",
    ],
)
def test_a_count_of_what_the_loss_counts_raises_no_alarm(count: str, tmp_path: Path) -> None:
    script = SCRIPT.replace("COUNT", count)
    assert [f"{each.cause}: {each.message}" for each in alarms(script, tmp_path)] == []


def test_sequences_of_one_length_raise_no_alarm(tmp_path: Path) -> None:
    script = SCRIPT.replace("    ids[row, length:] = PAD", "    pass").replace("COUNT", SUM + "tokens += y.numel()")
    assert alarms(script, tmp_path) == []
