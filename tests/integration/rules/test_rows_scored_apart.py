"""Rows that a program scores apart as held-out, and that its loss takes like all others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

DATA = (
    HEAD
    + """
y = torch.randint(0, 3, (80,))
adjacency = (torch.rand(80, 80) < torch.where(y[:, None] == y, 0.2, 0.02)).float() + torch.eye(80)
adjacency = adjacency / adjacency.sum(1, keepdim=True)
x = F.one_hot(y, 3).float() + torch.randn(80, 3)
first, second = nn.Linear(3, 16), nn.Linear(16, 3)
optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.02)
def net(x):
    return adjacency @ second(torch.relu(adjacency @ first(x)))
"""
)
MASKS = """
order = torch.randperm(80)
train = torch.zeros(80, dtype=torch.bool)
train[order[:50]] = True
test = ~train
"""
SCORE = """
with torch.no_grad():
    guess = net(x).argmax(1)
    print((guess[train] == y[train]).float().mean(), (guess[test] == y[test]).float().mean())
"""
FAULTY = {
    "masks of nodes": MASKS
    + """
for epoch in range(6):
    loss = F.cross_entropy(net(x), y)  # HERE
"""
    + TRAIN
    + SCORE,
    "three parts of one draw": """
drawn = torch.rand(80)
parts = {"train": drawn < 0.6, "val": (drawn >= 0.6) & (drawn < 0.8), "test": drawn >= 0.8}
criterion = nn.CrossEntropyLoss()
for epoch in range(6):
    out = net(x)
    loss = criterion(out, y)  # HERE
"""
    + TRAIN
    + """
    print({name: (out[part].argmax(1) == y[part]).float().mean().item() for name, part in parts.items()})
""",
    "numbers of rows, scored in each epoch": """
order = torch.randperm(80)
train, test = order[:50], order[50:]
for epoch in range(6):
    out = net(x)
    loss = F.nll_loss(out.log_softmax(1), y)  # HERE
"""
    + TRAIN
    + """
    right = out.argmax(1) == y
    print(right[train].float().mean().item(), right[test].float().mean().item())
""",
    "batches of a permutation of all": """
net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
test = torch.rand(len(x)) < 0.3
print("train", (~test).sum().item())
for epoch in range(4):
    for rows in torch.randperm(len(x)).split(20):
        loss = F.cross_entropy(net(x[rows]), y[rows])  # HERE
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print((net(x[test]).argmax(1) == y[test]).float().mean())
""",
}
HEALTHY = {
    "the loss takes the training part": MASKS
    + """
for epoch in range(6):
    loss = F.cross_entropy(net(x)[train], y[train])
"""
    + TRAIN
    + SCORE,
    "a mask that weighs": MASKS
    + """
for epoch in range(6):
    each = F.cross_entropy(net(x), y, reduction="none")
    loss = (each * train).sum() / train.sum()
"""
    + TRAIN
    + SCORE,
    "classes that are ignored": MASKS
    + """
known = y.masked_fill(test, -100)
for epoch in range(6):
    loss = F.cross_entropy(net(x), known)
"""
    + TRAIN
    + SCORE,
    "weights of classes that hide nodes": MASKS
    + """
hidden = torch.where(test[:, None], torch.zeros(()), x)
for epoch in range(6):
    loss = F.cross_entropy(net(hidden), y)
"""
    + TRAIN
    + SCORE,
    "trained on all rows after the settings were chosen": MASKS
    + """
for epoch in range(6):
    loss = F.cross_entropy(net(x)[train], y[train])
"""
    + TRAIN
    + SCORE
    + """
for epoch in range(6):
    loss = F.cross_entropy(net(x), y)
"""
    + TRAIN,
    "folds, and all rows at last": """
folds = torch.randperm(80).chunk(2)
for chosen, other in (folds, folds[::-1]):
    for epoch in range(4):
        loss = F.cross_entropy(net(x)[chosen], y[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print((net(x).argmax(1)[other] == y[other]).float().mean())
for epoch in range(6):
    loss = F.cross_entropy(net(x), y)
"""
    + TRAIN,
    "the score of each class": """
for epoch in range(6):
    loss = F.cross_entropy(net(x), y)
"""
    + TRAIN
    + """
    guess = net(x).argmax(1)
    print([(guess[y == k] == y[y == k]).float().mean().item() for k in range(3)])
""",
    "groups of the data": """
group = torch.rand(80) < 0.5
x = x + group[:, None].float()
for epoch in range(6):
    loss = F.cross_entropy(net(x), y)
"""
    + TRAIN
    + """
    guess = net(x).argmax(1)
    print((guess[group] == y[group]).float().mean(), (guess[~group] == y[~group]).float().mean())
""",
    "a sample of the training that stays the same": """
some = torch.randperm(80)[:16]
for epoch in range(6):
    loss = F.cross_entropy(net(x), y)
"""
    + TRAIN
    + """
    guess = net(x).argmax(1)
    print((guess[some] == y[some]).float().mean())
""",
    "a sample of the training for a quick look": """
for epoch in range(6):
    loss = F.cross_entropy(net(x), y)
"""
    + TRAIN
    + """
    some = torch.randint(0, 80, (16,))
    guess = net(x).argmax(1)
    print((guess[some] == y[some]).float().mean())
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_held_out_rows_in_the_loss_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(DATA + FAULTY[name], "held_out_in_loss", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_other_parts_of_the_rows_are_left_alone(name: str, tmp_path: Path) -> None:
    assert not alarms(DATA + HEALTHY[name], tmp_path)
