"""Distances of samples to themselves, samplers that prefer frequent classes, sequences that are too short for their
targets, and old probabilities that the new model computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

TRIPLETS = (
    HEAD
    + """
net = nn.Linear(6, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
labels = torch.arange(12) % 3
for step in range(4):
    z = F.normalize(net(torch.randn(12, 6)), dim=1)
    same = labels[:, None] == labels
{}
    loss = F.relu(positive - negative + 0.3).mean()
"""
    + TRAIN
)
OTHERS = "    negative = table.masked_fill(same, 1e9).amin(1)\n"
DRAWN = (
    HEAD
    + """
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler
x = torch.randn(240, 4)
y = (x[:, 0] > 1).long()
{}
loader = DataLoader(TensorDataset(x, y), 40, sampler=WeightedRandomSampler(weights, 240))
net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for a, b in loader:
    loss = F.cross_entropy(net(a), b)
"""
    + TRAIN
)
SPEECH = (
    HEAD
    + """
net = nn.Conv1d(5, 6, 3, padding=1)
strides = nn.AvgPool1d({pool})
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    x, targets = torch.randn(4, 5, 24), torch.randint(1, 6, (4, 8))
    scores = strides(net(x)).permute(2, 0, 1)
    frames, letters = {lengths}
    loss = F.ctc_loss(scores.log_softmax(2), targets, frames, letters, zero_infinity=True)  # HERE
"""
    + TRAIN
)
TENSORS = "torch.full((4,), len(scores)), torch.tensor([8, 7, 7, 6])"
LISTS = "[len(scores)] * 4, [8, 7, 7, 6]"
POLICY = (
    HEAD
    + """
net = nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def evaluate(states, actions):
    return torch.distributions.Categorical(logits=net(states)).log_prob(actions)
for round in range(3):
    states = torch.randn(16, 4)
    with torch.no_grad():
        actions = torch.distributions.Categorical(logits=net(states)).sample()
        first = evaluate(states, actions)
    gain = torch.randn(16)
    for epoch in range(3):
{}
        ratio = (new - old).exp()
        loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
"""
    + TRAIN.replace("    ", "        ")
)
NEW = "        new = evaluate(states, actions)\n"
TUNED = (
    HEAD
    + """
embed, head = nn.Embedding(9, 8), nn.Linear(8, 9)
optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
criterion = nn.CrossEntropyLoss()
for step in range(4):
    ids = torch.zeros(8, 12, dtype=torch.long)
    for row in range(8):
        ids[row, : 5 + row % 4] = torch.randint(1, 9, (5 + row % 4,))
{}
    loss = criterion(head(embed(ids))[:, :-1].reshape(-1, 9), labels[:, 1:].reshape(-1))
"""
    + TRAIN
)
FAULTY = {
    "labels in which only the question is ignored, and not the padding": (
        "padding_in_loss",
        TUNED.format("    labels = ids.clone()  # HERE\n    labels[:, :3] = -100"),
    ),
    "the nearest of the same class": (
        "least_of_hidden",
        TRIPLETS.format(
            "    table = torch.cdist(z, z)\n    positive = table.masked_fill(~same, 1e9).min(1)[0]  # HERE\n" + OTHERS
        ),
    ),
    "the same by differences and where": (
        "least_of_hidden",
        TRIPLETS.format(
            "    table = (z[:, None] - z).norm(dim=2)\n    far = torch.full_like(table, float('inf'))\n"
            "    positive = torch.where(same, table, far).amin(dim=1)  # HERE\n" + OTHERS
        ),
    ),
    "weights of samples by the frequency of their class": (
        "rare_class_weighs_less",
        DRAWN.format("shares = torch.bincount(y) / len(y)  # HERE\nweights = shares[y]"),
    ),
    "the same in a list": (
        "rare_class_weighs_less",
        DRAWN.format("shares = torch.bincount(y).double().sqrt()  # HERE\nweights = [shares[label] for label in y]"),
    ),
    "fewer frames than targets": ("argument_out_of_range", SPEECH.format(pool=6, lengths=TENSORS)),
    "the same with lists of lengths": ("argument_out_of_range", SPEECH.format(pool=6, lengths=LISTS)),
    "an old value that is detached after it was computed anew": (
        "ratio_always_one",
        POLICY.format(NEW + "        old = evaluate(states, actions).detach()  # HERE"),
    ),
    "the same with data": (
        "ratio_always_one",
        POLICY.format("        old = evaluate(states, actions).data  # HERE\n" + NEW.rstrip()),
    ),
}
HEALTHY = {
    "labels in which the question and the padding are ignored": TUNED.format(
        "    labels = ids.masked_fill(ids == 0, -100)\n    labels[:, :3] = -100"
    ),
    "the farthest of the same class": TRIPLETS.format(
        "    table = torch.cdist(z, z)\n    positive = table.masked_fill(~same, 0).max(1)[0]\n" + OTHERS
    ),
    "the nearest of the same class, without itself": TRIPLETS.format(
        "    table = torch.cdist(z, z)\n    hidden = ~same | torch.eye(12, dtype=torch.bool)\n"
        "    positive = table.masked_fill(hidden, 1e9).min(1)[0]\n" + OTHERS
    ),
    "distances to two neighbours, and to itself": TRIPLETS.format(
        "    table = torch.cdist(z, z)\n    positive = table.topk(3, largest=False).values.mean(1)\n" + OTHERS
    ),
    "weights that fall with the frequency": DRAWN.format(
        "shares = torch.bincount(y) / len(y)\nweights = 1 / shares[y]"
    ),
    "the same, as a list": DRAWN.format(
        "shares = 1 / torch.bincount(y).float()\nweights = [shares[label] for label in y]"
    ),
    "frames enough": SPEECH.format(pool=2, lengths=TENSORS),
    "one sequence of several is too short": SPEECH.format(
        pool=2, lengths="torch.tensor([12, 12, 12, 5]), torch.tensor([8, 7, 7, 6])"
    ),
    "an old value from when the data were collected": POLICY.format(NEW + "        old = first"),
    "a ratio to its own value, for its gradient": POLICY.format(NEW + "        old = new.detach()"),
    "the same of a part": POLICY.format(
        "        both = torch.stack([evaluate(states, actions), gain])\n"
        "        new, old = both[0], both.detach()[0]"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTY)
def test_the_line_is_told(name: str, tmp_path: Path) -> None:
    cause, script = FAULTY[name]
    assert_first_alarm(script, cause, tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_what_looks_alike_and_is_right_is_quiet(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)


def test_lengths_that_are_divided_too_often_are_told_where_that_happens(tmp_path: Path) -> None:
    lengths = "torch.full((4,), 24) // 4, torch.tensor([8, 7, 7, 7])  # HERE"
    script = SPEECH.format(pool=2, lengths=lengths).replace("zero_infinity=True)  # HERE", "zero_infinity=True)")
    assert_first_alarm(script, "argument_out_of_range", tmp_path)
