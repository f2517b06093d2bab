from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

CAUSE = "count_over_batches"
PROGRAM = (
    HEAD
    + """
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(48, 4), torch.randint(0, 3, (48,)))
loader, held_out = DataLoader(data, batch_size=8, shuffle=True), DataLoader(data, batch_size=8)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
def score(loader):
    model.eval()
    right = total = 0
    with torch.no_grad():
        {score}
    model.train()
for epoch in range(3):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    score(held_out)
"""
)
LOOP = """for x, y in loader:
            {count}
        {result}"""
COUNT = "right += (model(x).argmax(1) == y).sum().item()"


@pytest.mark.parametrize(
    ("count", "result"),
    [
        (COUNT, "print(right / len(loader))  # HERE"),
        (COUNT, "print(100.0 * right / len(loader))  # HERE"),
        ("hits = model(x).argmax(1).eq(y); right += hits.sum()", "print(right.item() / len(loader))  # HERE"),
        ("_, best = model(x).max(1); right += torch.sum(best == y).item()", "acc = right / len(loader)  # HERE"),
    ],
)
def test_right_samples_over_batches(count: str, result: str, tmp_path: Path) -> None:
    script = PROGRAM.format(score=LOOP.format(count=count, result=result))
    assert_first_alarm(script, CAUSE, tmp_path)


@pytest.mark.parametrize(
    ("count", "result"),
    [
        (COUNT, "print(right / len(loader.dataset))"),
        (COUNT, "print(right / len(loader) / 8)"),
        (COUNT, "print(right / (len(loader) * 8))"),
        (COUNT, "print(right / len(loader) * 100 / 8)"),
        (COUNT, "each = right / len(loader)\n        print(each / 8)"),
        ("hits = torch.sum(model(x).argmax(1) == y); right += hits.div(len(y)).item()", "print(right / len(loader))"),
        ("right += (model(x).argmax(1) == y).float().mean().item()", "print(right / len(loader))"),
        ("right += (model(x).argmax(1) == y).sum().item() / len(y)", "print(right / len(loader))"),
        ("right += F.cross_entropy(model(x), y).item()", "print(right / len(loader))"),
        (COUNT + "; total += len(y)", "print(right / total, len(loader))"),
        # How many samples of a batch have another class: a number that is meant for batches.
        ("right += (y == 2).sum().item() / 8", "print(right / len(loader))"),
    ],
)
def test_shares_and_means(count: str, result: str, tmp_path: Path) -> None:
    script = PROGRAM.format(score=LOOP.format(count=count, result=result))
    assert CAUSE not in {finding.cause for finding in alarms(script, tmp_path)}


def test_a_loop_over_single_samples(tmp_path: Path) -> None:
    loop = """for x, y in data:
            right += (model(x).argmax() == y).sum().item()
        print(right / len(data))"""
    assert CAUSE not in {finding.cause for finding in alarms(PROGRAM.format(score=loop), tmp_path)}


def test_a_loop_over_models(tmp_path: Path) -> None:
    loop = """x, y = data[:20]
        for net in (model, copy.deepcopy(model)):
            right += (net(x).argmax(1) == y).sum().item()
        nets = [model, model]
        for net in nets:
            total += (net(x).argmax(1) == y).sum().item()
        print(right / 2, total / len(nets), "of 20")"""
    assert CAUSE not in {finding.cause for finding in alarms(PROGRAM.format(score=loop), tmp_path)}


def test_a_batch_that_is_unpacked_in_the_loop(tmp_path: Path) -> None:
    loop = """for number, batch in enumerate(loader):
            given, labels = batch
            scores = model(given)
            best = scores.argmax(1)
            right += (best == labels).sum().item()
        print(right / len(loader))  # HERE"""
    assert_first_alarm(PROGRAM.format(score=loop), CAUSE, tmp_path)


def test_right_words_of_a_sentence(tmp_path: Path) -> None:
    loop = """sentences = [(torch.randn(n, 4), torch.randint(0, 3, (n,))) for n in (3, 5, 4, 7, 6)]
        for x, y in sentences:
            right += (model(x).argmax(1) == y).sum().item()
        print(right / len(sentences))"""
    assert CAUSE not in {finding.cause for finding in alarms(PROGRAM.format(score=loop), tmp_path)}
