"""Outputs of a network that a loss takes for logits, and an evaluation for probabilities."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

START = (
    HEAD
    + """
x, held_out = torch.randn(40, 5), torch.randn(30, 5)
y, y_held_out = (x.sum(1) > 0).float(), (held_out.sum(1) > 0).float()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(5, 8), nn.Linear(8, 1)
    def forward(self, x):
        return self.head(self.body(x).relu()).squeeze(-1)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = nn.BCEWithLogitsLoss()
for epoch in range(3):
    logits = model(x)
    loss = criterion(logits, y)
"""
    + TRAIN
)
FACTORS = (
    HEAD
    + """
users, items = nn.Embedding(9, 4), nn.Embedding(7, 4)
optimizer = torch.optim.Adam([*users.parameters(), *items.parameters()], lr=0.01)
u, i, y = torch.randint(0, 9, (50,)), torch.randint(0, 7, (50,)), torch.rand(50).round()
def score(u, i):
    return (users(u) * items(i)).sum(-1)
for epoch in range(3):
    loss = F.binary_cross_entropy_with_logits(score(u, i), y)
"""
    + TRAIN
)
FAULTY = {
    "a threshold of an evaluation": START
    + """
    with torch.no_grad():
        found = (model(held_out) > 0.5).float()  # HERE
    print((found == y_held_out).float().mean().item())
""",
    "a running accuracy of training": START
    + """
    right = (logits.detach().ge(0.5) == y.bool()).sum()  # HERE
    print(right.item() / 40)
""",
    "rounded": START
    + """
    with torch.no_grad():
        found = torch.round(model(held_out))  # HERE
    print((found == y_held_out).float().mean().item())
""",
    "gathered from batches": START
    + """
    with torch.no_grad():
        answers = torch.cat([model(part) for part in held_out.split(10)])
    print((answers >= 0.5).eq(y_held_out).float().mean().item())  # HERE
""",
    "a product of embeddings": FACTORS
    + """
    with torch.no_grad():
        print(((score(u, i) > 0.5) == y.bool()).float().mean().item())  # HERE
""",
    "several cuts of probabilities": START
    + """
with torch.no_grad():
    scores = model(held_out)
    for cut in (0.1, 0.3, 0.5, 0.7, 0.9):
        print(cut, ((scores > cut) == y_held_out.bool()).float().mean().item())  # HERE
""",
}
HEALTHY = {
    "a layer that also learns a share": HEAD
    + """
x = torch.randn(40, 5)
hit, share = (x[:, 0] > 0).float(), torch.rand(40)
model = nn.Linear(5, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(4):
    out = model(x)
    loss = F.binary_cross_entropy_with_logits(out[:, 0], hit) + F.mse_loss(out[:, 1], share)
"""
    + TRAIN
    + """
with torch.no_grad():
    print((model(x)[:, 1] > 0.5).float().mean())
""",
    "a sigmoid before it": START
    + """
    with torch.no_grad():
        found = (torch.sigmoid(model(held_out)) > 0.5).float()
    print((found == y_held_out).float().mean().item())
""",
    "compared with 0": START
    + """
    with torch.no_grad():
        found = model(held_out) > 0
    print((found == y_held_out).float().mean().item())
""",
    "another head that gives shares": START
    + """
gate = nn.Linear(5, 1)
with torch.no_grad():
    share = gate(held_out).clamp(0, 1)
    print((share > 0.5).float().mean().item(), share.round().sum().item())
""",
    "a threshold that was chosen": START
    + """
with torch.no_grad():
    scores = model(held_out)
    best = max(((scores > cut) == y_held_out.bool()).float().mean().item() for cut in (-1.0, 0.0, 0.7, 1.0))
print(best)
""",
    "several cuts of logits": START
    + """
with torch.no_grad():
    scores = model(held_out)
    for cut in (-1.0, -0.5, 0.0, 0.5, 1.0):
        print(cut, ((scores > cut) == y_held_out.bool()).float().mean().item())
""",
    "the sigmoid in the model": START.replace(".squeeze(-1)", ".squeeze(-1).sigmoid()").replace("BCEWithLogits", "BCE")
    + """
    with torch.no_grad():
        print(((model(held_out) > 0.5) == y_held_out.bool()).float().mean().item())
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_logits_that_are_taken_for_probabilities_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(FAULTY[name], "logits_as_probabilities", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_thresholds_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)
