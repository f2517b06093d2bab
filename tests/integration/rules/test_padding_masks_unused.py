"""Masks that say which ids only pad, and whether attention gets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

MODEL = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.q, self.k, self.v = nn.Embedding(30, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.head = nn.Linear(8, 4)
    def forward(self, ids, mask=None):
        x, t = self.embed(ids), ids.shape[1]
        allowed = torch.ones(t, t, dtype=torch.bool).tril() if CAUSAL else torch.ones(t, t, dtype=torch.bool)
        if mask is not None:
            allowed = allowed & mask.bool()[:, None, :] | torch.eye(t, dtype=torch.bool)
        attn_mask = allowed if CAUSAL or mask is not None else None
        y = F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x), attn_mask=attn_mask)
        return self.head(y[:, -1 if LEFT else 0])
rows = [torch.randint(1, 30, (int(n),)) for n in torch.randint(3, 14, (64,))]
def collate(some):
    width = max(len(row) for row in some)
    ids = torch.stack([F.pad(row, (width - len(row), 0) if LEFT else (0, width - len(row))) for row in some])
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}
def by_hand(some):
    width = max(len(row) for row in some)
    ids, mask = torch.zeros(len(some), width, dtype=torch.long), torch.zeros(len(some), width)
    for i, row in enumerate(some):
        place = slice(width - len(row), None) if LEFT else slice(0, len(row))
        ids[i, place], mask[i, place] = row, 1.0
    return {"input_ids": ids, "attention_mask": mask}
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LOOP = """
for batch in torch.utils.data.DataLoader(rows, batch_size=16, collate_fn={collate}):
    logits = {call}
    loss = F.cross_entropy(logits, batch["input_ids"].sum(1) % 4)
"""
WITHOUT = 'model(batch["input_ids"])'
WITH = 'model(batch["input_ids"], batch["attention_mask"])'


def _script(*, causal: bool, left: bool, call: str, collate: str = "collate") -> str:
    return HEAD + f"CAUSAL, LEFT = {causal}, {left}\n" + MODEL + LOOP.format(collate=collate, call=call) + TRAIN


@pytest.mark.parametrize(
    ("causal", "left", "collate"),
    [(True, True, "collate"), (False, True, "by_hand"), (False, False, "collate"), (True, True, "by_hand")],
)
def test_a_mask_of_padding_that_nothing_uses_is_told(causal: bool, left: bool, collate: str, tmp_path: Path) -> None:
    script = _script(causal=causal, left=left, call=f"{WITHOUT}  # HERE", collate=collate)
    assert_first_alarm(script, "padding_mask_unused", tmp_path)


@pytest.mark.parametrize(
    ("causal", "left", "call"),
    [
        (True, True, WITH),
        (False, False, WITH),
        (False, True, WITH),
        # Nothing reads what stands behind it.
        (True, False, WITHOUT),
    ],
)
def test_a_mask_that_is_used_or_not_needed_is_right(causal: bool, left: bool, call: str, tmp_path: Path) -> None:
    found = alarms(_script(causal=causal, left=left, call=call), tmp_path)
    assert "padding_mask_unused" not in {each.cause for each in found}


def test_ids_without_padding_need_no_mask(tmp_path: Path) -> None:
    script = _script(causal=False, left=True, call=WITHOUT).replace("int(n)", "9")
    assert not alarms(script, tmp_path)
