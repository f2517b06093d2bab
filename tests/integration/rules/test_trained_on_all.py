"""Random splits that only select what is evaluated, and losses of all samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

GRAPH = (
    HEAD
    + """
N = 60
y = torch.randint(0, 3, (N,))
x = torch.randn(N, 6) + F.one_hot(y, 6)
near = torch.rand(N, N).lt(0.1).float() + torch.eye(N)
near = near / near.sum(1, keepdim=True)
{split}
first, last = nn.Linear(6, 16), nn.Linear(16, 3)
optimizer = torch.optim.Adam([*first.parameters(), *last.parameters()], lr=0.01)
for step in range(4):
    answers = last(near @ first(near @ x).relu())
{loss}
"""
    + TRAIN
    + """
    with torch.no_grad():
        right = answers.argmax(1) == y
{evaluate}
"""
)
MASKS = """
order = torch.randperm(N)
train, test = torch.zeros(2, N, dtype=torch.bool)
train[order[:40]] = True
test[order[40:]] = True
"""
INDEXES = "train, test = torch.randperm(N).split([40, 20])"
DRAWN = "train = torch.rand(N) < 0.7\ntest = ~train"
BOTH = "        print(right[train].float().mean(), (answers[test].argmax(1) == y[test]).float().mean())"
ALL = "    loss = F.cross_entropy(answers, y)  # HERE"
PART = "    loss = F.cross_entropy(answers[train], y[train])"
FAULTY = {
    "masks": GRAPH.format(split=MASKS, loss=ALL, evaluate=BOTH),
    "indexes": GRAPH.format(split=INDEXES, loss=ALL, evaluate=BOTH),
    "a drawn mask and its inverse": GRAPH.format(
        split=DRAWN, loss="    loss = nn.CrossEntropyLoss(label_smoothing=0.1)(answers, y)  # HERE", evaluate=BOTH
    ),
}
HEALTHY = {
    "masks": GRAPH.format(split=MASKS, loss=PART, evaluate=BOTH),
    "indexes": GRAPH.format(split=INDEXES, loss=PART, evaluate=BOTH),
    "a mask as a factor": GRAPH.format(
        split=MASKS,
        loss="    loss = (F.cross_entropy(answers, y, reduction='none') * train).sum() / train.sum()",
        evaluate=BOTH,
    ),
    "targets that are hidden": GRAPH.format(
        split=MASKS + "told = y.masked_fill(~train, -100)\n",
        loss="    loss = F.cross_entropy(answers, told)",
        evaluate=BOTH,
    ),
    "one random part is looked at": GRAPH.format(
        split="some = torch.randperm(N)[:20]",
        loss=ALL,
        evaluate="        print((answers[some].argmax(1) == y[some]).float().mean())",
    ),
    "classes are looked at": GRAPH.format(
        split="rare = y == 2",
        loss=ALL,
        evaluate="        print((y[rare] == answers[rare].argmax(1)).sum(), (y[~rare] == 0).sum())",
    ),
    "all are looked at, in a random order": GRAPH.format(
        split="",
        loss=ALL,
        evaluate="        for rows in torch.randperm(N).split(10):\n"
        "            print((answers[rows].argmax(1) == y[rows]).sum())",
    ),
    "a last training on all": GRAPH.format(
        split=INDEXES,
        loss="    chosen = train if step < 2 else torch.arange(N)\n"
        "    loss = F.cross_entropy(answers[chosen], y[chosen]) if step < 2 else F.cross_entropy(answers, y)",
        evaluate=BOTH,
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_the_loss_of_all_samples_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(FAULTY[name], "trained_on_all", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_what_looks_alike_and_is_right_is_quiet(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)


def test_codes_of_all_inputs_that_neighbours_of_a_part_are_scored_with_are_right(tmp_path: Path) -> None:
    script = """
x, order = torch.randn(60, 8), torch.randperm(60)
y = (x[:, 0] > 0).long()
train, test = order[:45], order[45:]
encoder, decoder = nn.Linear(8, 3), nn.Linear(3, 8)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
for step in range(4):
    loss = F.mse_loss(decoder(encoder(x)), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    z = encoder(x)
    for a, b in ((x[train], x[test]), (z[train], z[test])):
        print((y[train][torch.cdist(b, a).argmin(1)] == y[test]).float().mean())
"""
    assert not alarms(HEAD + script, tmp_path)
