from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

CAUSE = "model_made_anew"
PROGRAM = (
    HEAD
    + """
x = torch.randn(80, 5)
y = (x[:, :2].sum(1) > 0).long()
def build():
    return nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 2))
def one_pass(model, optimizer, x, y):
    for rows in torch.randperm(len(x)).split(20):
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
def score(model, x, y):
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()
"""
)


@pytest.mark.parametrize(
    "training",
    [
        """
for epoch in range(4):
    model = build()  # HERE
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    one_pass(model, optimizer, x[:60], y[:60])
    print(epoch, score(model, x[60:], y[60:]))
""",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(5, 8), nn.Linear(8, 2)
    def forward(self, x):
        return self.head(torch.tanh(self.layer(x)))
class Trainer:
    def train_epoch(self):
        self.model = Net()  # HERE
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        one_pass(self.model, optimizer, x, y)
trainer = Trainer()
for ep in range(1, 5):
    trainer.train_epoch()
print(score(trainer.model, x, y))
""",
        """
folds = torch.randperm(80).chunk(3)
for k in range(3):
    rest = torch.cat([fold for i, fold in enumerate(folds) if i != k])
    for epoch in range(3):
        model = build()  # HERE
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        one_pass(model, optimizer, x[rest], y[rest])
    print(score(model, x[folds[k]], y[folds[k]]))
""",
        """
epoch = 0
while epoch < 4:
    model = build()  # HERE
    one_pass(model, torch.optim.Adam(model.parameters(), lr=0.01), x, y)
    epoch += 1
""",
        """
def init(module):
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)
model = build()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(4):
    model.train()
    model.apply(init)  # HERE
    one_pass(model, optimizer, x, y)
""",
    ],
)
def test_every_epoch_begins_anew(training: str, tmp_path: Path) -> None:
    assert_first_alarm(PROGRAM + training, CAUSE, tmp_path)


@pytest.mark.parametrize(
    "training",
    [
        # A cross-validation: one model for each fold.
        """
folds = torch.randperm(80).chunk(4)
for k in range(4):
    rest = torch.cat([fold for i, fold in enumerate(folds) if i != k])
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(3):
        one_pass(model, optimizer, x[rest], y[rest])
    print(score(model, x[folds[k]], y[folds[k]]))
""",
        # An ensemble, whose members are kept.
        """
members = []
for epoch in range(4):
    model = build()
    one_pass(model, torch.optim.Adam(model.parameters(), lr=0.01), x, y)
    members.append(model)
with torch.no_grad():
    print(torch.stack([member(x) for member in members]).mean(0))
""",
        # Settings and seeds that are tried.
        """
for seed in range(3):
    torch.manual_seed(seed)
    for rate in (0.1, 0.01):
        model = build()
        one_pass(model, torch.optim.SGD(model.parameters(), lr=rate), x, y)
        print(seed, rate, score(model, x, y))
""",
        # How long to train: the number of epochs is a setting.
        """
for epochs in range(1, 4):
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        one_pass(model, optimizer, x, y)
for epoch in range(1, 4):
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epoch):
        one_pass(model, optimizer, x, y)
""",
        # A head that is drawn again on purpose, and a probe beside the training.
        """
body, head = nn.Linear(5, 12), nn.Linear(12, 2)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
for epoch in range(4):
    head.reset_parameters()
    one_pass(nn.Sequential(body, nn.ReLU(), head), optimizer, x, y)
    probe = nn.Linear(12, 2)
    with torch.no_grad():
        features = body(x)
    one_pass(probe, torch.optim.SGD(probe.parameters(), lr=0.1), features, y)
    print(score(probe, features, y))
""",
        # The weights are those of the epoch before.
        """
state = build().state_dict()
for epoch in range(4):
    model = build()
    model.load_state_dict(state)
    one_pass(model, torch.optim.SGD(model.parameters(), lr=0.1), x, y)
    state = model.state_dict()
""",
        # Trainings of several epochs, in a loop with such a name.
        """
for step in range(3):
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(3):
        one_pass(model, optimizer, x[: 20 * (step + 1)], y[: 20 * (step + 1)])
    print(step, score(model, x, y))
""",
        # Rounds of active learning, each with a training of its own.
        """
known = list(range(10))
for step in range(4):
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(8):
        loss = F.cross_entropy(model(x[known]), y[known])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        doubt = -model(x).softmax(1).amax(1)
        doubt[known] = -1
        known += doubt.topk(5).indices.tolist()
    print(step, score(model, x, y))
""",
        # Two players, of which one is made anew.
        """
model = build()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(4):
    one_pass(model, optimizer, x, y)
    judge = nn.Linear(2, 2)
    judge_optimizer = torch.optim.SGD(judge.parameters(), lr=0.1)
    with torch.no_grad():
        scores = model(x)
    one_pass(judge, judge_optimizer, scores, y)
""",
    ],
)
def test_new_weights_that_are_meant(training: str, tmp_path: Path) -> None:
    assert CAUSE not in {finding.cause for finding in alarms(PROGRAM + training, tmp_path)}
