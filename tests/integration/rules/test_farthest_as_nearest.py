from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

CAUSE = "farthest_as_nearest"
PROGRAM = (
    """
model = nn.Linear(8, 5)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
labels = torch.arange(4).repeat(10)
centers = 2 * torch.randn(4, 8)
def batch():
    return centers[labels] + torch.randn(40, 8), labels
def loss_of(z):
    distances = torch.cdist(z, z)
    same = labels[:, None] == labels
    near, far = distances.masked_fill(~same, 0.0).amax(1), distances.masked_fill(same, float("inf")).amin(1)
    return F.relu(near - far + 0.5).mean()
for step in range(6):
    x, _ = batch()
    loss = loss_of(model(x))
"""
    + TRAIN
    + """
gallery, query = batch()[0], batch()[0]
with torch.no_grad():
    zq, zg = model(query), model(gallery)
"""
)


@pytest.mark.parametrize(
    "scored",
    [
        "    found = torch.cdist(zq, zg).topk(3).indices  # HERE\n"
        "    print((labels[found] == labels[:, None]).any(1).float().mean())\n",
        "    far = (zq[:, None] - zg[None]).square().sum(-1)\n    place = far.argmax(dim=1)  # HERE\n"
        "    print((labels[place] == labels).float().mean())\n",
        "    order = torch.cdist(zq, zg).argsort(dim=1, descending=True)  # HERE\n"
        "    print((labels[order[:, :5]].mode(dim=1).values == labels).float().mean())\n",
        "    _, place = torch.cdist(zq, zg).max(dim=1)  # HERE\n    print(labels[place].eq(labels).float().mean())\n",
    ],
)
def test_labels_of_the_farthest(scored: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + PROGRAM + scored, CAUSE, tmp_path)


@pytest.mark.parametrize(
    "scored",
    [
        "    found = torch.cdist(zq, zg).topk(3, largest=False).indices\n"
        "    print((labels[found] == labels[:, None]).any(1).float().mean())\n",
        "    found = (-torch.cdist(zq, zg)).topk(3).indices\n"
        "    print((labels[found] == labels[:, None]).any(1).float().mean())\n",
        "    order = torch.cdist(zq, zg).argsort(dim=1)\n"
        "    print((labels[order[:, :5]].mode(dim=1).values == labels).float().mean())\n",
        # The similarity of unit vectors.
        "    found = (F.normalize(zq) @ F.normalize(zg).T).topk(3).indices\n"
        "    print((labels[found] == labels[:, None]).any(1).float().mean())\n",
        # Which samples are far from all others, as outliers are.
        "    outlier = torch.cdist(zq, zg).amin(dim=1).topk(3).indices\n    print(query[outlier], labels[outlier])\n",
        # Points for a coreset: each the farthest from those that are chosen.
        "    place = torch.cdist(zq, zg[:1]).amin(1).argmax()\n    print(zq[place], labels[place])\n",
    ],
)
def test_the_nearest_and_outliers(scored: str, tmp_path: Path) -> None:
    assert CAUSE not in {finding.cause for finding in alarms(HEAD + PROGRAM + scored, tmp_path)}
