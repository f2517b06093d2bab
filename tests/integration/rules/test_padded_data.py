"""Batches of measurements of different lengths: what reads the padding behind the shorter ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SCRIPT = (
    HEAD
    + """
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
layer, head = nn.LSTM(3, 8, batch_first=True), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.01)
records = [torch.randn(int(n), 3) for n in torch.randint(LENGTHS, (64,))]
labels = torch.stack([(r[-1, 0] > r.mean()).float() for r in records])

def filled(rows):
    x = torch.zeros(len(rows), max(map(len, rows)), 3)
    for i, row in enumerate(rows):
        x[i, :len(row)] = row
    return x

for step in range(4):
    chosen = torch.randperm(64)[:16]
    rows = [records[i] for i in chosen]
    n = torch.tensor([len(r) for r in rows])
    READ
    loss = F.binary_cross_entropy_with_logits(head(h).squeeze(1), labels[chosen])
"""
    + TRAIN
)
FAULTY = {
    "the last result": "out, _ = layer(pad_sequence(rows, batch_first=True))\n    h = out[:, -1]  # HERE",
    "the last state": "out, (h, _) = layer(pad_sequence(rows, batch_first=True))  # HERE\n    h = h[-1]",
    "assigned to zeros": "x = filled(rows)\n    out, _ = layer(torch.tanh(x))\n    h = out[:, -1, :]  # HERE",
    "turned around": "x = pad_sequence(rows).transpose(0, 1)\n    out, _ = layer(x)\n    h = out.select(1, -1)  # HERE",
}
HEALTHY = {
    "at the lengths": "out, _ = layer(pad_sequence(rows, batch_first=True))\n    h = out[torch.arange(16), n - 1]",
    "packed": "x = pad_sequence(rows, batch_first=True)\n"
    "    packed = pack_padded_sequence(x, n, batch_first=True, enforce_sorted=False)\n"
    "    h = layer(packed)[1][0][-1]",
    "filled up in front": "x = pad_sequence(rows, batch_first=True, padding_side='left')\n    h = layer(x)[0][:, -1]",
    "a mean over what was measured": "x = filled(rows)\n"
    "    real = (torch.arange(x.shape[1]) < n[:, None]).unsqueeze(2)\n"
    "    h = (layer(x)[0] * real).sum(1) / n[:, None]",
    "all of one length": "x = torch.stack([r[:4] for r in rows])\n    h = layer(x)[0][:, -1]",
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_state_from_behind_the_padding_is_told(name: str, tmp_path: Path) -> None:
    script = SCRIPT.replace("READ", FAULTY[name]).replace("LENGTHS", "4, 12")
    assert_first_alarm(script, "padding_in_summary", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_states_of_what_was_measured_are_right(name: str, tmp_path: Path) -> None:
    assert not alarms(SCRIPT.replace("READ", HEALTHY[name]).replace("LENGTHS", "4, 12"), tmp_path)


def test_sequences_that_all_have_one_length_are_not_padded(tmp_path: Path) -> None:
    script = SCRIPT.replace("READ", FAULTY["the last result"]).replace("LENGTHS", "8, 9")
    assert not alarms(script, tmp_path)
