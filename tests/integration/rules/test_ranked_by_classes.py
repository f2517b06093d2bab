"""Areas under curves, average precisions and ranks that are computed from predicted classes instead of from scores."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

PROGRAM = (
    HEAD
    + """
x = torch.randn(64, 6)
y = (x.sum(1) + torch.randn(64) > 0).float()
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, {outputs}))
def loss_of(z):
    return F.cross_entropy(z, y.long()) if z.dim() == 2 else F.binary_cross_entropy_with_logits(z, y)
def area_by_pairs(scores, labels):
    pos, neg = scores[labels == 1], scores[labels == 0]
    diff = pos[:, None] - neg[None, :]
    return ((diff > 0).float() + 0.5 * (diff == 0).float()).mean()
def area_by_comparison(scores, labels):
    pos, neg = scores[labels.bool()].unsqueeze(1), scores[~labels.bool()].unsqueeze(0)
    return ((pos > neg).sum() + 0.5 * (pos == neg).sum()) / (pos.numel() * neg.numel())
def area_by_curve(scores, labels):
    labels = labels[scores.argsort(descending=True)]
    tpr = labels.cumsum(0) / labels.sum()
    fpr = (1 - labels).cumsum(0) / (1 - labels).sum()
    return torch.trapezoid(tpr, fpr)
def precision(scores, labels):
    _, order = torch.sort(scores, descending=True)
    hits = labels[order]
    at = torch.cumsum(hits, dim=0) / torch.arange(1, len(hits) + 1)
    return (at * hits).sum() / hits.sum()
def area_by_ranks(scores, labels):
    ranks = scores.argsort().argsort().float() + 1
    count = labels.sum()
    return (ranks[labels == 1].sum() - count * (count + 1) / 2) / (count * (len(labels) - count))
def area_by_written_ranks(scores, labels):
    order = torch.argsort(scores)
    ranks = torch.empty(len(scores))
    ranks[order] = torch.arange(1.0, len(scores) + 1)
    count = labels.sum()
    return ((ranks * labels).sum() - count * (count + 1) / 2) / (count * (len(labels) - count))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    loss = loss_of(net(x).squeeze(1))
"""
    + TRAIN
    + """
with torch.no_grad():
    found = []
    for rows in torch.arange(64).split(16):
        z = net(x[rows]).squeeze(1)
        {given}
        found.append(given)
    found = torch.cat(found)
    print({shown})
"""
)
MEASURES = [
    "area_by_pairs",
    "area_by_comparison",
    "area_by_curve",
    "precision",
    "area_by_ranks",
    "area_by_written_ranks",
]


@pytest.mark.parametrize("measure", MEASURES)
def test_rankings_of_predicted_classes_are_told(measure: str, tmp_path: Path) -> None:
    given = "given = (torch.sigmoid(z) > 0.5).float()  # HERE"
    script = PROGRAM.format(outputs=1, given=given, shown=f"{measure}(found, y)")
    assert_first_alarm(script, "ranked_by_classes", tmp_path)


@pytest.mark.parametrize(
    ("outputs", "given"),
    [
        (1, "given = z.sigmoid().round()  # HERE"),
        (1, "given = (z >= 0).long()  # HERE"),
        (2, "given = z.argmax(dim=1)  # HERE"),
        (2, "given = (z.softmax(1)[:, 1] > 0.3).int()  # HERE"),
    ],
)
def test_other_ways_to_predict_classes_are_told(outputs: int, given: str, tmp_path: Path) -> None:
    script = PROGRAM.format(outputs=outputs, given=given, shown="area_by_curve(found, y)")
    assert_first_alarm(script, "ranked_by_classes", tmp_path)


@pytest.mark.parametrize("measure", MEASURES)
def test_rankings_of_scores_are_right(measure: str, tmp_path: Path) -> None:
    shown = f"{measure}(found, y), ((found > 0.5) == y).float().mean(), ((found > 0.5).float() - y).abs().mean()"
    assert not alarms(PROGRAM.format(outputs=1, given="given = torch.sigmoid(z)", shown=shown), tmp_path)


@pytest.mark.parametrize(
    "shown",
    [
        "x[found.argsort(descending=True, stable=True)][: int(found.sum())].mean()",  # those found come first
        "x[found.argsort()][found.argsort().argsort()]",  # in order, and back again
        "found[:, None] == found[None, :], (found[:, None] - found[None, :]).abs().mean()",  # who is in one class
        "found[found.argsort(descending=True, stable=True)].cumsum(0) - 1",  # places in a shorter list
        "found[y == 1].mean() - found[y == 0].mean(), (found[y == 1].mean() > found[y == 0].mean())",
        "found.cumsum(0) / torch.arange(1, 65)",  # the share up to each sample
        "(found != y).float()[found.argsort(stable=True)].cumsum(0)[-1] / 64",  # errors, one class after the other
    ],
)
def test_other_uses_of_predicted_classes_are_right(shown: str, tmp_path: Path) -> None:
    given = "given = (torch.sigmoid(z) > 0.5).float()"
    assert not alarms(PROGRAM.format(outputs=1, given=given, shown=shown), tmp_path)


def test_the_rate_of_groups_that_two_classes_choose_is_right(tmp_path: Path) -> None:
    shown = "(lambda s, g: area_by_pairs(s, g.float()))(z_all := net(x).squeeze(1), z_all > 0)"
    assert not alarms(PROGRAM.format(outputs=1, given="given = z", shown=shown), tmp_path)
