"""Sequences that are sorted by their lengths before they are packed, and labels that are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

NAMES = (
    HEAD
    + """
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
embed, head = nn.Embedding(20, 8, padding_idx=0), nn.Linear(16, 3)
lstm = nn.LSTM(8, 16, batch_first=True)
names = [torch.randint(1, 20, (int(n),)) for n in torch.randint(2, 9, (64,))]
kinds = torch.tensor([int(name[0]) % 3 for name in names])
optimizer = torch.optim.Adam([*embed.parameters(), *lstm.parameters(), *head.parameters()])
"""
)
SORTED = """
def scores(x, lengths):
    lengths, order = lengths.sort(descending=True)
    packed = pack_padded_sequence(embed(x[order]), lengths, batch_first=True)
    return head(lstm(packed)[1][0][-1])
"""
RESTORED = """
def scores(x, lengths):
    lengths, order = torch.sort(lengths, descending=True)
    packed = pack_padded_sequence(embed(x[order]), lengths, batch_first=True)
    return head(lstm(packed)[1][0][-1])[order.argsort()]
"""
STEPS = """
for step in range(5):
    rows = range(12 * step, 12 * step + 12)
    chunk = [names[row] for row in rows]
    x, y = pad_sequence(chunk, batch_first=True), kinds[12 * step : 12 * step + 12]
    lengths = torch.tensor([len(name) for name in chunk])
"""
COLLATED = """
def collate(batch):
    chunk, y = zip(*batch)
    lengths = torch.tensor([len(name) for name in chunk])
    return pad_sequence(chunk, batch_first=True), lengths, torch.tensor(y)
data = list(zip(names, kinds.tolist()))
for x, lengths, y in torch.utils.data.DataLoader(data, batch_size=12, collate_fn=collate):
"""
IN_ORDER = """
def collate(batch):
    batch.sort(key=lambda pair: len(pair[0]), reverse=True)
    chunk, y = zip(*batch)
    lengths = torch.tensor([len(name) for name in chunk])
    return pad_sequence(chunk, batch_first=True), lengths, torch.tensor(y)
data = list(zip(names, kinds.tolist()))
for x, lengths, y in torch.utils.data.DataLoader(data, batch_size=12, collate_fn=collate):
"""
LOSS = "    loss = F.cross_entropy(scores(x, lengths), y)"
FAULTY = {
    "labels as a slice": SORTED + STEPS + LOSS + "  # HERE",
    "labels of a collate function": SORTED + COLLATED + LOSS + "  # HERE",
}
HEALTHY = {
    "results put back": RESTORED + STEPS + LOSS,
    "results of a loader put back": RESTORED + COLLATED + LOSS,
    "a batch in order already": SORTED + IN_ORDER + LOSS,
    "labels in the same order": SORTED + STEPS + LOSS.replace(", y)", ", y[lengths.sort(descending=True)[1]])"),
    "torch sorts": SORTED.replace("lengths, order = lengths.sort(descending=True)", "order = slice(None)").replace(
        "batch_first=True)\n    return", "batch_first=True, enforce_sorted=False)\n    return"
    )
    + STEPS
    + LOSS,
}


@pytest.mark.parametrize("name", FAULTY)
def test_labels_that_were_not_sorted_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(NAMES + FAULTY[name] + TRAIN, "sorted_apart", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_labels_in_the_order_of_their_sequences_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(NAMES + HEALTHY[name] + TRAIN, tmp_path)
