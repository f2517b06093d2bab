"""Small batches that are added up for one step: what a target weighs where batches have few of them or many."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm, findings

MODEL = (
    HEAD
    + """
model = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def batch(lengths):
    tokens = torch.randint(1, 20, (len(lengths), 13))
    targets = tokens[:, 1:].clone()
    for row, length in enumerate(lengths):
        targets[row, length:] = -100
    return tokens[:, :-1], targets
LENGTHS = [(2, 3), (12, 11), (4, 1), (12, 12)]
"""
)
INNER = """
for step in range(5):
    batches = [batch(lengths) for lengths in LENGTHS]
    count = sum((targets != -100).sum() for _, targets in batches)
    for tokens, targets in batches:
        scores = model(tokens).flatten(0, 1)
        {}
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
SOMETIMES = """
for turn in range(20):
    tokens, targets = batch(LENGTHS[turn % 4])
    scores = model(tokens).transpose(1, 2)
    loss = F.cross_entropy(scores, targets)
    (loss * 0.25).backward()  # HERE
    if turn % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
"""
MEAN = "loss = F.cross_entropy(scores, targets.flatten()) / len(batches)  # HERE"
FAULTY = {
    "a loop over the batches of a step": INNER.format(MEAN),
    "nll_loss": INNER.format("loss = F.nll_loss(scores.log_softmax(-1), targets.flatten()) / 4  # HERE"),
    "a step at every fourth batch": SOMETIMES,
    "a sum over the targets of a batch, divided by their number": INNER.format(
        "own = (targets != -100).sum()\n        "
        "loss = F.cross_entropy(scores, targets.flatten(), reduction='sum') / own / 4  # HERE"
    ),
}
HEALTHY = {
    "the sum over all, divided by their number": INNER.format(
        "loss = F.cross_entropy(scores, targets.flatten(), reduction='sum') / count"
    ),
    "the same, scaled once more": INNER.format(
        "loss = F.cross_entropy(scores, targets.flatten(), reduction='sum') / count / 4"
    ),
    "batches of like lengths": INNER.format(MEAN).replace("in LENGTHS", "in 4 * [(9, 8)]"),
    "tasks with as many targets as they have": """
tasks = [(torch.randint(1, 20, (size,)), torch.randint(1, 20, (size,))) for size in (3, 24, 9, 40)]
for step in range(5):
    for tokens, targets in tasks:
        loss = F.cross_entropy(model(tokens), targets) / len(tasks)
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
}


@pytest.mark.parametrize("name", FAULTY)
def test_means_of_batches_with_few_and_many_targets_are_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(MODEL + FAULTY[name], "targets_weigh_by_batch", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_targets_that_weigh_alike_are_right(name: str, tmp_path: Path) -> None:
    assert not alarms(MODEL + HEALTHY[name], tmp_path)


def test_small_differences_are_a_note(tmp_path: Path) -> None:
    script = MODEL.replace("(2, 3), (12, 11), (4, 1), (12, 12)", "(6, 7), (12, 11), (8, 5), (12, 12)")
    (found,) = findings(script + INNER.format(MEAN), tmp_path)
    assert (found.cause, found.severity) == ("targets_weigh_by_batch", "note")
