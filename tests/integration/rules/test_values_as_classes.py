"""Labels that are compared with scores, or with one index for a batch, and logits that are held between 0 and 1."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PROGRAM = (
    HEAD
    + """
x, y = torch.randn(64, 6), torch.randint(0, 4, (64,))
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    loss = F.cross_entropy(net(x){squashed}, y)
"""
    + TRAIN
    + """
with torch.no_grad():
    scores = net(x)
    {predicted}
    print({shown})
"""
)
SAME = "(predicted == y).float().mean()"


@pytest.mark.parametrize(
    ("predicted", "shown"),
    [
        ("predicted = scores.max(1)[0]  # HERE", SAME),
        ("predicted, _ = torch.max(F.softmax(scores, dim=1), dim=1)  # HERE", "predicted.eq(y).sum().item() / 64"),
        ("predicted = scores.argmax()  # HERE", SAME),
        ("predicted = torch.argmax(scores)  # HERE", "torch.eq(y, predicted).float().mean()"),
    ],
)
def test_labels_that_are_compared_with_no_classes_are_told(predicted: str, shown: str, tmp_path: Path) -> None:
    script = PROGRAM.format(predicted=predicted, shown=shown, squashed="")
    assert_first_alarm(script, "values_as_classes", tmp_path)


@pytest.mark.parametrize(
    ("predicted", "shown"),
    [
        ("predicted = scores.argmax(1)", SAME),
        ("sure, predicted = scores.softmax(1).max(1)", "sure.mean(), " + SAME),
        ("predicted = scores[:1].argmax()", "predicted == y[:1], scores.argmax() == 3"),
        ("predicted = scores.max(1)[0]", "(scores == predicted[:, None]).sum(), predicted == scores.amax(1)"),
    ],
)
def test_classes_and_other_comparisons_are_right(predicted: str, shown: str, tmp_path: Path) -> None:
    assert not alarms(PROGRAM.format(predicted=predicted, shown=shown, squashed=""), tmp_path)


def test_logits_behind_a_sigmoid_are_told(tmp_path: Path) -> None:
    script = PROGRAM.format(predicted="pass", shown="scores.argmax(1)", squashed=".sigmoid()")
    assert alarms(script, tmp_path)[0].cause == "target_never_reached"


def test_logits_behind_a_sigmoid_and_a_scale_are_right(tmp_path: Path) -> None:
    script = PROGRAM.format(predicted="pass", shown="scores.argmax(1)", squashed=".sigmoid() * 20")
    assert not alarms(script, tmp_path)
