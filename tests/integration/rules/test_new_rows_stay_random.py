"""Embeddings that got rows for new tokens: what becomes of these rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PROGRAM = (
    HEAD
    + """
OLD, NEW = 24, 3
class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.body, self.head = nn.Embedding(OLD, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, OLD + NEW)
    def forward(self, ids):
        return self.head(self.body(self.embed(ids))[0])
class Adapter(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base, self.a, self.b = base, nn.Parameter(torch.randn(2, 8)), nn.Parameter(torch.zeros(OLD + NEW, 2))
    def forward(self, x):
        return self.base(x) + x @ self.a.T @ self.b.T
def resized(old):
    new = nn.Embedding(OLD + NEW, 8)
{copied}
    return new
def fit(batch):
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    for step in range(4):
        ids = batch()
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
model = LM()
fit(lambda: torch.randint(0, OLD, (8, 10)))
{adapted}
fit(lambda: torch.cat([torch.randint(0, OLD, (8, 9)), torch.randint({low}, {high}, (8, 3))], 1)[:, torch.randperm(12)])
"""
)
COPIED = "    with torch.no_grad():\n        new.weight[:OLD] = old.weight"
DATA = "    new.weight.data[:OLD] = old.weight.data"
COPY = "    new.weight.data[:OLD].copy_(old.weight.data)"
BEHIND = """
model.embed = resized(model.embed)
for p in model.parameters():
    p.requires_grad_(False)  # HERE
model.head = Adapter(model.head)
"""
BEFORE = """
for p in model.parameters():
    p.requires_grad = False
model.embed = resized(model.embed)
model.embed.weight.requires_grad = False  # HERE
model.head = Adapter(model.head)
"""
NEW = {"low": "OLD", "high": "OLD + NEW"}
FAULTY = {
    "frozen with all others": {"copied": COPIED, "adapted": BEHIND},
    "frozen by itself": {"copied": COPIED, "adapted": BEFORE},
    "written by .data": {"copied": DATA, "adapted": BEHIND},
    "copied into a view": {"copied": COPY, "adapted": BEHIND},
}
HEALTHY: dict[str, dict[str, object]] = {
    "rows that are trained": {"copied": COPIED, "adapted": BEHIND + "model.embed.requires_grad_(True)", **NEW},
    "rows that begin with the mean": {
        "copied": COPIED + "\n        new.weight[OLD:] = old.weight.mean(0)", "adapted": BEHIND, **NEW,
    },
    "rows that nothing looks up": {"copied": COPIED, "adapted": BEHIND, "low": 0, "high": "OLD"},
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTY)
def test_frozen_rows_of_new_tokens_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(PROGRAM.format(**FAULTY[name], **NEW), "new_rows_stay_random", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_new_rows_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(PROGRAM.format(**HEALTHY[name]), tmp_path)


def test_a_single_new_row_that_pads_is_left_alone(tmp_path: Path) -> None:
    script = f"""{HEAD}
old, new, head = nn.Embedding(20, 4), nn.Embedding(21, 4, padding_idx=20), nn.Linear(4, 3)
with torch.no_grad():
    new.weight[:20] = old.weight
new.weight.requires_grad_(False)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for step in range(4):
    ids = torch.randint(0, 20, (8, 6)).masked_fill(torch.arange(6) >= torch.randint(3, 7, (8, 1)), 20)
    mask = (ids != 20).unsqueeze(-1)
    loss = F.cross_entropy(head((new(ids) * mask).sum(1) / mask.sum(1)), ids[:, 0] % 3)
{TRAIN}"""
    assert not alarms(script, tmp_path)


def test_random_vectors_beside_those_of_a_file_are_left_alone(tmp_path: Path) -> None:
    script = f"""{HEAD}
vectors = torch.randn(20, 4)
embed, head = nn.Embedding(21, 4), nn.Linear(4, 3)
with torch.no_grad():
    embed.weight[:20] = vectors
embed.weight.requires_grad_(False)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for step in range(4):
    ids = torch.randint(0, 21, (8, 6))
    loss = F.cross_entropy(head(embed(ids).mean(1)), ids[:, 0] % 3)
{TRAIN}"""
    assert not alarms(script, tmp_path)
