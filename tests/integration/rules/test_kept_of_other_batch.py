"""What a network made of a batch, kept for later epochs: by the number of the batch, or by the samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

DATA = """
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
y = torch.randint(5, (160,))
x = torch.randn(5, 12)[y] + torch.randn(160, 12)
teacher = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5)).requires_grad_(False)
student = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 5))
optimizer = torch.optim.Adam(student.parameters(), lr=0.01)
data = TensorDataset(x, y, torch.arange(160))
loader = DataLoader(data, batch_size=32, shuffle=True)
def fit(loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
def divergence(s, t):
    return F.kl_div(F.log_softmax(s, dim=1), F.softmax(t, dim=1), reduction="batchmean")
"""

WRONG = {
    "a dict by the number of the batch": """
kept = {}
for epoch in range(4):
    for step, (a, b, _) in enumerate(loader):
        if step not in kept:
            kept[step] = teacher(a)  # HERE
        fit(divergence(student(a), kept[step]) + 0.1 * F.cross_entropy(student(a), b))
""",
    "a list of one pass": """
kept = [teacher(a).softmax(1).cpu() for a, _, _ in loader]  # HERE
for epoch in range(4):
    for (a, _, _), t in zip(loader, kept):
        fit(-(t * F.log_softmax(student(a), dim=1)).sum(1).mean())
""",
    "features with labels of others": """
backbone, head = teacher[:2], nn.Linear(16, 5)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
kept = []
for epoch in range(4):
    for step, (a, b, _) in enumerate(loader):
        if epoch == 0:
            kept.append(backbone(a))  # HERE
        fit(F.cross_entropy(head(F.dropout(kept[step], 0.1)), b))
""",
    "permutations by hand": """
kept = {}
for epoch in range(4):
    for step, rows in enumerate(torch.randperm(160).split(40)):
        if step not in kept:
            kept[step] = teacher(x[rows])  # HERE
        fit(F.mse_loss(student(x[rows]), kept[step]))
""",
}

HEALTHY = {
    "slow weights that fast ones are drawn to": """
class Signs(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})
    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            mean = self.state[p].setdefault("mean", torch.zeros_like(p))
            p.add_(mean.mul(0.9).add(p.grad, alpha=0.1).sign_(), alpha=-0.01)
            mean.mul_(0.9).add_(p.grad, alpha=0.1)
net = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 5))
optimizer = Signs(net.parameters())
slow = [p.detach().clone() for p in net.parameters()]
for epoch in range(6):
    for step, (a, b, _) in enumerate(loader):
        loss = F.cross_entropy(net(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 4:
            with torch.no_grad():
                for p, s in zip(net.parameters(), slow):
                    s.add_(p - s, alpha=0.5)
                    p.copy_(s)
""",
    "by the index of the sample": """
kept = {}
for epoch in range(4):
    for a, b, rows in loader:
        for row in rows.tolist():
            if row not in kept:
                kept[row] = teacher(x[row:row + 1])[0]
        fit(divergence(student(a), torch.stack([kept[row] for row in rows.tolist()])))
""",
    "a table of all samples": """
kept = teacher(x)
for epoch in range(4):
    for a, b, rows in loader:
        fit(divergence(student(a), kept[rows]))
""",
    "batches in order with noise, beside a loader that shuffles": """
others = DataLoader(data, batch_size=16, shuffle=True)
loader = DataLoader(data, batch_size=32)
kept = {}
for epoch in range(4):
    for step, (a, b, _) in enumerate(loader):
        if step not in kept:
            kept[step] = teacher(a)
        s = student(a + 0.1 * torch.randn_like(a))
        fit(divergence(s, kept[step]) + F.cross_entropy(s, b))
print([student(a).argmax(1) for a, _, _ in others][0])
""",
    "batches in order that are changed at random, without labels": """
for rows in torch.randperm(160).split(80):
    fit(divergence(student(x[rows]), torch.eye(5)[y[rows]]))
for rows in torch.randperm(160).split(80):
    fit(divergence(student(x[rows]), torch.eye(5)[y[rows]]))
kept = {}
for epoch in range(4):
    for step, (a, _, _) in enumerate(DataLoader(data, batch_size=32)):
        if step not in kept:
            kept[step] = teacher(a)
        a = a * (torch.rand_like(a) > 0.1) + 0.1 * torch.randn_like(a)
        fit(divergence(student(a), kept[step]))
""",
    "pairs in a memory": """
import random
memory = [(a, teacher(a)) for a, _, _ in loader]
for step in range(20):
    a, t = random.choice(memory)
    fit(divergence(student(a), t))
""",
    "minibatches of what an old policy did": """
for epoch in range(3):
    a = torch.randn(64, 12)
    with torch.no_grad():
        before = student(a).log_softmax(1)
    for turn in range(3):
        for rows in torch.randperm(64).split(32):
            fit((student(a[rows]).log_softmax(1) - before[rows]).exp().mean() + student(a[rows]).square().mean())
""",
    "a generator that is seeded anew": """
generator = torch.Generator()
loader = DataLoader(data, batch_size=32, shuffle=True, generator=generator)
kept = {}
for epoch in range(4):
    generator.manual_seed(7)
    for step, (a, b, _) in enumerate(loader):
        if step not in kept:
            kept[step] = teacher(a)
        fit(divergence(student(a), kept[step]))
""",
    "batches that are drawn once": """
backbone, head = teacher[:2], nn.Linear(16, 5)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
kept = [(backbone(a), b) for a, b, _ in loader]
for epoch in range(4):
    for t, b in kept:
        fit(F.cross_entropy(head(t), b))
""",
    "kept for one epoch": """
for epoch in range(4):
    kept = {}
    for step, (a, b, _) in enumerate(loader):
        kept[step] = teacher(a)
        fit(divergence(student(a), kept[step]) + divergence(student(a), kept[step]) / 2)
""",
    "what came one step before": """
last = None
for epoch in range(4):
    for step, (a, b, _) in enumerate(loader):
        s = student(a)
        loss = F.cross_entropy(s, b)
        if last is not None:
            loss = loss + 0.01 * F.mse_loss(s, last)
        last = s.detach()
        fit(loss)
""",
    "a memory of the last three steps": """
from collections import deque
memory = deque(maxlen=3)
for epoch in range(4):
    for step, (a, b, _) in enumerate(loader):
        s = student(a)
        loss = F.cross_entropy(s, b)
        for before in memory:
            loss = loss + 0.01 * F.mse_loss(s, before)
        memory.append(s.detach())
        fit(loss)
""",
    "prototypes that meet all batches": """
anchors = [teacher(x[:32]), teacher(x[32:64])]
for epoch in range(4):
    for step, (a, b, _) in enumerate(loader):
        s = student(a)
        fit(F.cross_entropy(s, b) + 0.01 * sum(F.mse_loss(s.mean(0), each.mean(0)) for each in anchors))
""",
}


@pytest.mark.parametrize("shape", list(WRONG))
def test_what_is_kept_by_the_number_of_a_batch_is_told(shape: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + DATA + WRONG[shape], "kept_of_other_batch", tmp_path)


@pytest.mark.parametrize("look", list(HEALTHY))
def test_what_is_kept_of_the_same_samples_raises_no_alarm(look: str, tmp_path: Path) -> None:
    found = [f"{each.cause}: {each.message}" for each in alarms(HEAD + DATA + HEALTHY[look], tmp_path)]
    assert [each for each in found if each.startswith("kept_of_other_batch")] == []
