"""Samplers that draw with weights: whether there is a weight for each sample."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

DATA = """
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, WeightedRandomSampler
x, y = torch.randn(200, 4), torch.multinomial(torch.tensor([0.7, 0.2, 0.1]), 200, replacement=True)
class Rows(Dataset):
    def __len__(self): return len(y)
    def __getitem__(self, i): return x[i], y[i]
class_weights = 1 / torch.bincount(y, minlength=3).float()
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LOOP = (
    """
for x_, y_ in loader:
    loss = F.cross_entropy(model(x_), y_)
"""
    + TRAIN
)
FEWER = (
    """
sampler = WeightedRandomSampler(class_weights, num_samples=len(y))  # HERE
loader = DataLoader(Rows(), batch_size=32, sampler=sampler)
""",
    """
def balanced(counts):
    return WeightedRandomSampler([1.0 / c for c in counts.tolist()], 200, replacement=True)  # HERE
loader = DataLoader(TensorDataset(x, y), 25, sampler=balanced(torch.bincount(y)), drop_last=True)
""",
    """
loader = DataLoader(
    Rows(), batch_size=20, sampler=torch.utils.data.sampler.WeightedRandomSampler(class_weights.numpy(), 100)  # HERE
)
""",
)
ENOUGH = (
    "loader = DataLoader(Rows(), batch_size=32, sampler=WeightedRandomSampler(class_weights[y], len(y)))",
    "loader = DataLoader(Rows(), batch_size=32, sampler=WeightedRandomSampler(class_weights[y], 64))",
    "part = Subset(Rows(), range(80))\n"
    "loader = DataLoader(part, batch_size=16, sampler=WeightedRandomSampler(class_weights[y[:80]], 80))",
    "loader = DataLoader(Rows(), batch_size=32, shuffle=True)",
)


@pytest.mark.parametrize("made", FEWER)
def test_a_sampler_with_weights_of_classes_is_told(made: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + DATA + made + LOOP, "weights_of_classes_drawn", tmp_path)


@pytest.mark.parametrize("made", ENOUGH)
def test_a_sampler_with_weights_of_samples_is_right(made: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + DATA + made + LOOP, tmp_path)
