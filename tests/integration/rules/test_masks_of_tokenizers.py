"""Masks that no comparison made, as those of a tokenizer: a one for each token."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PROGRAM = (
    HEAD
    + """
def collate(lengths):
    ids, mask = torch.zeros(len(lengths), 12, dtype=torch.long), torch.zeros(len(lengths), 12, dtype=torch.long)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.randint(1, 20, (length,))
        mask[row, :length] = 1
    return ids, mask
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8, padding_idx=0)
        self.mix = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 3)
    def forward(self, ids, mask):
        x = self.embed(ids)
        {attend}
        return self.head((x + y)[:, 0])
net = Encoder()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(4):
    ids, mask = collate(torch.randint(2, 11, (16,)).tolist())
    loss = F.cross_entropy(net(ids, mask), ids[:, 0] % 3)
"""
    + TRAIN
)
WHOLE = "y, _ = self.mix(x, x, x, key_padding_mask={mask})"
FUSED = "y = F.scaled_dot_product_attention(x, x, x, attn_mask=({mask})[:, None, :])"
FILLED = "y = (x @ x.transpose(1, 2)).masked_fill(({mask})[:, None, :], -1e9).softmax(-1) @ x"


@pytest.mark.parametrize(
    ("attend", "mask"),
    [
        (WHOLE, "mask.bool()"),
        (WHOLE, "mask == 1"),
        (WHOLE, "mask.ne(0)"),
        (FUSED, "~mask.bool()"),
        (FILLED, "mask.bool()"),
    ],
)
def test_the_wrong_way_round(attend: str, mask: str, tmp_path: Path) -> None:
    script = PROGRAM.format(attend=attend.format(mask=mask) + "  # HERE")
    assert_first_alarm(script, "inverted_mask", tmp_path)


@pytest.mark.parametrize(
    ("attend", "mask"),
    [
        (WHOLE, "~mask.bool()"),
        (WHOLE, "mask == 0"),
        (WHOLE, "mask != 1"),
        (FUSED, "mask.bool()"),
        (FILLED, "~mask.bool()"),
        # Some tokens chosen at random are hidden, as many as there happen to be.
        (FILLED, "torch.rand(16, 12) < 0.3"),
    ],
)
def test_the_right_way_round(attend: str, mask: str, tmp_path: Path) -> None:
    found = alarms(PROGRAM.format(attend=attend.format(mask=mask)), tmp_path)
    assert "inverted_mask" not in {finding.cause for finding in found}
