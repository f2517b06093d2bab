"""Two views of each sample, joined to rows sample by sample, of which a loss pairs others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SCRIPT = (
    HEAD
    + """
from torch.utils.data import DataLoader, Dataset

class Pairs(Dataset):
    base = torch.randn(120, 6)
    def __len__(self):
        return 120
    def __getitem__(self, i):
        hidden = self.base[i] * (torch.rand(6) > 0.2)
        noisy = self.base[i] + 0.1 * torch.randn(6)
        return RETURNED

def table_loss(z):
    n = len(z) // 2
    scores = (z @ z.t() / 0.3).masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e9)
    return F.cross_entropy(scores, torch.cat([torch.arange(n, 2 * n), torch.arange(n)]))

def diagonal_loss(z):
    n = len(z) // 2
    scores = (z @ z.t() / 0.3).masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e9)
    return (scores.logsumexp(1) - torch.cat([scores.diagonal(n), scores.diagonal(-n)])).mean()

def part_loss(z):
    one, other = PARTS
    return F.cross_entropy(one @ other.t() / 0.3, torch.arange(len(one)))

model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for batch in DataLoader(Pairs(), 24, shuffle=True, COLLATE):
    rows = ROWS
    loss = LOSS(F.normalize(model(rows), dim=1))
"""
    + TRAIN
)
STACKED = "torch.stack([hidden, noisy])"
NUMPY = "__import__('numpy').stack([hidden.numpy(), noisy.numpy()])"
BY_SAMPLE = "collate_fn=lambda pairs: torch.stack([view for pair in pairs for view in pair])"
BY_VIEW = "collate_fn=lambda pairs: torch.stack([pair[k] for k in (0, 1) for pair in pairs])"
FAULTY, HALVES = "batch.flatten(0, 1)", "z.chunk(2)"
TOGETHER = "batch.transpose(0, 1).flatten(0, 1)"


def of(rows: str, loss: str, parts: str = HALVES, returned: str = STACKED, collate: str = "") -> str:
    script = SCRIPT.replace("ROWS", rows).replace("LOSS", loss).replace("PARTS", parts)
    return script.replace("RETURNED", returned).replace("COLLATE", collate)


@pytest.mark.parametrize("returned", [STACKED, NUMPY])
@pytest.mark.parametrize("loss", ["table_loss", "diagonal_loss", "part_loss"])
def test_views_joined_sample_by_sample_are_told_once(loss: str, returned: str, tmp_path: Path) -> None:
    script = of(FAULTY + "  # HERE", loss, returned=returned)
    assert_first_alarm(script, "rows_grouped_otherwise", tmp_path)
    assert len(alarms(script, tmp_path)) == 1


def test_views_that_a_collate_function_puts_in_turns_are_told(tmp_path: Path) -> None:
    script = of("batch", "part_loss", returned="(hidden, noisy)", collate=BY_SAMPLE)
    assert [each.cause for each in alarms(script, tmp_path)] == ["rows_grouped_otherwise"]


@pytest.mark.parametrize(
    "script",
    [
        of(TOGETHER, "table_loss"),
        of(TOGETHER, "diagonal_loss"),
        of(TOGETHER, "part_loss", returned=NUMPY),
        of("torch.cat([batch[:, 0], batch[:, 1]])", "table_loss"),
        of(FAULTY, "part_loss", "(z[0::2], z[1::2])"),
        of(FAULTY, "part_loss", "z.view(-1, 2, 8).unbind(1)"),
        of("batch", "part_loss", "(z[0::2], z[1::2])", "(hidden, noisy)", BY_SAMPLE),
        of("batch", "part_loss", HALVES, "(hidden, noisy)", BY_VIEW),
    ],
    ids=[
        "one view of all first", "also by diagonals", "also of arrays", "parts joined", "every other row",
        "cut as they stand", "every other row of turns", "a collate function with one view of all first",
    ],
)  # fmt: skip
def test_views_that_are_paired_as_they_stand_are_right(script: str, tmp_path: Path) -> None:
    assert not alarms(script, tmp_path)
