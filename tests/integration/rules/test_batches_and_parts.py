"""Loaders that begin anew in each step, and parts of a split that share a data set."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

LOADER = (
    HEAD
    + """
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split
x, y = torch.randn(64, 5), torch.randint(0, 2, (64,))
model = nn.Linear(5, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
"""
)
STEP = """    loss = F.cross_entropy(model(xb), yb)
""" + TRAIN.lstrip("\n")
ROWS = """
class Rows(Dataset):
    def __init__(self, transform=None):
        self.transform = transform
    def __len__(self):
        return 64
    def __getitem__(self, i):
        return (x[i] if self.transform is None else self.transform(x[i])), y[i]
def noisy(row):
    return row + 0.1 * torch.randn_like(row)
"""
LOOP = (
    """
train_loader, val_loader = DataLoader(train, 16, shuffle=True), DataLoader(val, 16)
for xb, yb in train_loader:
"""
    + STEP
    + """
with torch.no_grad():
    print([(model(xb).argmax(1) == yb).sum().item() for xb, yb in val_loader])
"""
)
FIRST_BATCH = {
    "in a loop of steps": """
loader = DataLoader(TensorDataset(x, y), batch_size=8)
for step in range(6):
    xb, yb = next(iter(loader))  # HERE
"""
    + STEP,
    "in a function": ROWS
    + """
def fit(loader):
    step = 0
    while step < 6:
        step += 1
        batch = next(iter(loader))  # HERE
        loss = F.cross_entropy(model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
fit(DataLoader(Rows(), batch_size=16))
""",
}
TRANSFORM = {
    "switched off for validation": ROWS
    + """
train, val = random_split(Rows(noisy), [48, 16])
val.dataset.transform = None  # HERE
"""
    + LOOP,
    "one for each part": ROWS
    + """
def main():
    train, val = random_split(Rows(), [48, 16])
    train.dataset.transform = noisy
    val.dataset.transform = lambda row: row  # HERE
"""
    + LOOP.replace("\n", "\n    ")
    + "\nmain()\n",
}
HEALTHY = {
    "gradients of inputs that are shown": """
data = TensorDataset(x, y)
train, probe = DataLoader(data, 16, shuffle=True), DataLoader(data, 8)
for epoch in range(4):
    for xb, yb in train:
        loss = F.cross_entropy(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    xb, yb = next(iter(probe))
    xb.requires_grad_()
    F.cross_entropy(model(xb), yb).backward()
    print(xb.grad.abs().mean(0))
    optimizer.zero_grad()
""",
    "a part that is one batch": """
train, val = random_split(TensorDataset(x, y), [48, 16])
loader = DataLoader(train, batch_size=len(train))
for epoch in range(6):
    xb, yb = next(iter(loader))
"""
    + STEP,
    "both parts are scaled alike": ROWS
    + """
train, val = random_split(Rows(), [48, 16])
mean = torch.stack([row for row, _ in train]).mean(0)
train.dataset.transform = lambda row: row - mean
"""
    + LOOP,
    "shuffled": """
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
for step in range(6):
    xb, yb = next(iter(loader))
"""
    + STEP,
    "all samples in one batch": """
loader = DataLoader(TensorDataset(x, y), batch_size=64)
for step in range(6):
    xb, yb = next(iter(loader))
"""
    + STEP,
    "one batch by heart, before all others": """
loader = DataLoader(TensorDataset(x, y), batch_size=8)
for step in range(6):
    xb, yb = next(iter(loader))
"""
    + STEP
    + """
for xb, yb in loader:
"""
    + STEP,
    "the same samples, looked at in each epoch": """
loader, fixed = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True), DataLoader(TensorDataset(x, y), 8)
for xb, yb in loader:
"""
    + STEP
    + """
    with torch.no_grad():
        seen, _ = next(iter(fixed))
        print(model(seen).mean().item())
""",
    "an iterator that goes on": """
loader = DataLoader(TensorDataset(x, y), batch_size=8)
batches = iter(loader)
for step in range(6):
    xb, yb = next(batches)
"""
    + STEP,
    "samples drawn anew": """
class Drawn(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, i):
        return torch.randn(5), y[i]
for step in range(6):
    xb, yb = next(iter(DataLoader(Drawn(), batch_size=8)))
"""
    + STEP,
    "a data set for each part": ROWS
    + """
train, val = random_split(Rows(noisy), [48, 16])
val.dataset = copy.copy(val.dataset)
val.dataset.transform = None
"""
    + LOOP,
    "two data sets and one split": ROWS
    + """
train, _ = random_split(Rows(noisy), [48, 16], generator=torch.Generator().manual_seed(1))
_, val = random_split(Rows(), [48, 16], generator=torch.Generator().manual_seed(1))
"""
    + LOOP,
    "switched in each phase": ROWS
    + """
train, val = random_split(Rows(noisy), [48, 16])
train_loader, val_loader = DataLoader(train, 16, shuffle=True), DataLoader(val, 16)
for epoch in range(2):
    train.dataset.transform = noisy
    for xb, yb in train_loader:
"""
    + STEP.replace("    ", "        ")
    + """
    val.dataset.transform = None
    print(sum(len(yb) for _, yb in val_loader))
""",
}
SWITCHED_OFF = (
    ROWS
    + """
train, val = random_split(Rows(noisy), [48, 16])
"""
    + LOOP
    + """
val.dataset.transform = None
print(sum(len(yb) for _, yb in val_loader))
"""
)


@pytest.mark.parametrize("name", FIRST_BATCH)
def test_a_loader_that_begins_anew_in_each_step_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(LOADER + FIRST_BATCH[name], "first_batch_each_time", tmp_path)


@pytest.mark.parametrize("name", TRANSFORM)
def test_a_transform_of_both_parts_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(LOADER + TRANSFORM[name], "transform_of_both_parts", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_loaders_and_parts_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(LOADER + HEALTHY[name], tmp_path)


def test_a_transform_that_is_switched_off_after_the_score_is_told_for_its_noise_alone(tmp_path: Path) -> None:
    assert [each.cause for each in alarms(LOADER + SWITCHED_OFF, tmp_path)] == ["changed_at_random"]
