"""Probabilities that a softmax normalizes again, and a softmax after another one that is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

WRONG: dict[str, str] = {
    "the teacher's stored probabilities, batched by a loader": """
from torch.utils.data import DataLoader, TensorDataset
teacher, student = nn.Linear(5, 3).requires_grad_(False), nn.Linear(5, 3)
x = torch.randn(12, 5)
with torch.no_grad():
    stored = torch.cat([F.softmax(teacher(part), dim=-1) for part in x.split(4)])  # HERE
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
T = 2.0
for inputs, soft in DataLoader(TensorDataset(x, stored), batch_size=4):
    loss = F.kl_div(F.log_softmax(student(inputs) / T, dim=1), F.softmax(soft / T, dim=1), reduction="batchmean")
"""
    + TRAIN,
    "a teacher's cache that is filled by index": """
teacher, student = nn.Linear(4, 3).requires_grad_(False), nn.Linear(4, 3)
x, cache = torch.randn(8, 4), torch.zeros(8, 3)
for i in range(0, 8, 4):
    cache[i : i + 4] = teacher(x[i : i + 4]).softmax(1)  # HERE
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for step in range(3):
    rows = torch.randperm(8)[:4]
    wanted = torch.softmax(cache[rows].detach() / 4, dim=-1)
    loss = -(wanted * student(x[rows]).log_softmax(1)).sum(1).mean()
"""
    + TRAIN,
    "a model that ends with a softmax": """
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(dim=1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    scores = F.log_softmax(model(torch.randn(6, 4)), dim=1)  # HERE
    loss = F.nll_loss(scores, torch.randint(0, 3, (6,)))
"""
    + TRAIN,
}

HEALTHY: dict[str, str] = {
    "weights of attention are multiplied by values, whose result is classified": """
key, head = nn.Linear(4, 4), nn.Linear(4, 3)
optimizer = torch.optim.SGD([*key.parameters(), *head.parameters()], lr=0.1)
for step in range(3):
    x = torch.randn(6, 5, 4)
    mixed = F.softmax(key(x) @ x.mT / 2, dim=-1) @ x
    loss = -F.log_softmax(head(mixed.mean(1)), dim=-1)[:, 0].mean()
"""
    + TRAIN,
    "the logarithm of stored probabilities": """
student = nn.Linear(4, 3)
x = torch.randn(8, 4)
stored = torch.randn(8, 3).softmax(1)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for step in range(3):
    wanted = F.softmax(stored.log() / 2, dim=1)
    loss = F.kl_div(F.log_softmax(student(x) / 2, dim=1), wanted, reduction="batchmean")
"""
    + TRAIN,
    "rows and columns are normalized by turns": """
score = nn.Linear(4, 5)
optimizer = torch.optim.Adam(score.parameters(), lr=0.01)
for step in range(3):
    x = torch.randn(5, 4)
    matching = score(x)
    for _ in range(3):
        matching = matching.softmax(0).softmax(1)
    loss = (matching * torch.rand(5, 5)).sum()
"""
    + TRAIN,
    "a gate of one expert goes through a layer to the next gate": """
class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.experts = nn.Linear(4, 3), nn.Linear(3, 3), nn.Linear(4, 3)
    def forward(self, x):
        gate = F.softmax(self.first(x), dim=-1)
        return (F.softmax(self.second(gate), dim=-1) * self.experts(x)).sum(-1)
router = Router()
optimizer = torch.optim.SGD(router.parameters(), lr=0.1)
for step in range(3):
    loss = (router(torch.randn(7, 4)) - 1).square().mean()
"""
    + TRAIN,
    "the logits are stored beside the probabilities, and softened": """
teacher, student = nn.Linear(4, 3).requires_grad_(False), nn.Linear(4, 3)
x = torch.randn(8, 4)
with torch.no_grad():
    logits = teacher(x)
    probabilities = logits.softmax(-1)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for step in range(3):
    out = student(x)
    soft = F.kl_div((out / 3).log_softmax(1), (logits / 3).softmax(1), reduction="batchmean")
    loss = soft - (probabilities * out.log_softmax(1)).sum(1).mean()
"""
    + TRAIN,
    "probabilities are only printed once more": """
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    out, y = model(torch.randn(6, 4)), torch.randint(0, 3, (6,))
    print(torch.softmax(out.detach().softmax(1), dim=1).max().item())
    loss = F.cross_entropy(out, y)
"""
    + TRAIN,
}


@pytest.mark.parametrize("shape", list(WRONG))
def test_the_first_of_two_softmaxes_comes_first(shape: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + WRONG[shape], "normalized_twice", tmp_path)


@pytest.mark.parametrize("look", list(HEALTHY))
def test_a_softmax_after_something_else_raises_no_alarm(look: str, tmp_path: Path) -> None:
    assert [f"{each.cause}: {each.message}" for each in alarms(HEAD + HEALTHY[look], tmp_path)] == []
