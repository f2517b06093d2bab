"""Cross-validations whose rounds train one model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

BY_INDEX = (
    HEAD + "x = torch.randn(64, 6)\ny = (x.sum(1) > 0).long()\nfolds = torch.randperm(64).chunk(4)\n"
    "def fit(net, rows, steps=12):\n    a, b = x[rows], y[rows]\n"
    "    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)\n"
    "    for step in range(steps):\n        loss = F.cross_entropy(net(a), b)\n"
    "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n"
    "@torch.no_grad()\ndef score(net, rows):\n    return (net(x[rows]).argmax(1) == y[rows]).float().mean().item()\n"
    "def build():\n    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))\n"
)
ONE_MODEL = BY_INDEX + (
    "net = build()  # HERE\nfor k in range(4):\n"
    "    rest = torch.cat([each for i, each in enumerate(folds) if i != k])\n"
    "    fit(net, rest)\n    print(score(net, folds[k]))\n"
)
NEW_MODELS = ONE_MODEL.replace("net = build()  # HERE\n", "").replace("range(4):\n", "range(4):\n    net = build()\n")
SET_BACK = ONE_MODEL.replace("# HERE\n", "\nfirst = copy.deepcopy(net.state_dict())\n").replace(
    "range(4):\n", "range(4):\n    net.load_state_dict(first)\n"
)
# Tasks that come one after the other, each with data of its own, which are all scored.
TASKS = BY_INDEX + (
    "net = build()\nfor k in range(4):\n    fit(net, folds[k])\n    print([score(net, each) for each in folds])\n"
)
# The model is trained further with what it was scored on before.
GROWING = BY_INDEX + (
    "net = build()\nfor k in range(1, 4):\n    fit(net, torch.cat(folds[:k]))\n    print(score(net, folds[k]))\n"
)
# Tasks that come round again and again; what the model keeps of the other ones is scored.
ROUND_AND_ROUND = BY_INDEX + (
    "net = build()\nfor turn in range(8):\n    fit(net, folds[turn % 4])\n"
    "    print(score(net, folds[(turn + 1) % 4]))\n"
)
BY_LOADER = (
    HEAD + "from torch.utils.data import DataLoader, Subset, TensorDataset\n"
    "data = TensorDataset(torch.randn(48, 6), torch.randint(0, 2, (48,)))\n"
    "order = torch.randperm(48).tolist()\n{}for k in range(3):\n{}"
    "    out = order[k * 16:(k + 1) * 16]\n    rest = [i for i in order if i not in out]\n"
    "    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)\n"
    "    for epoch in range(2):\n        for a, b in DataLoader(Subset(data, rest), 8, shuffle=True):\n"
    "            optimizer.zero_grad()\n            F.cross_entropy(net(a), b).backward()\n"
    "            optimizer.step()\n    with torch.no_grad():\n"
    "        right = sum((net(a).argmax(1) == b).sum().item() for a, b in DataLoader(Subset(data, out), 16))\n"
    "    print(right / len(out))\n"
)
NET = "net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)){}\n"


@pytest.mark.parametrize(
    ("faulty", "mended"),
    [
        (ONE_MODEL, NEW_MODELS),
        (BY_LOADER.format(NET.format("  # HERE"), ""), BY_LOADER.format("", "    " + NET.format(""))),
    ],
)
def test_a_model_that_all_folds_train_is_told(tmp_path: Path, faulty: str, mended: str) -> None:
    assert_first_alarm(faulty, "folds_share_a_model", tmp_path)
    assert not alarms(mended, tmp_path)


@pytest.mark.parametrize("script", [SET_BACK, TASKS, GROWING, ROUND_AND_ROUND])
def test_models_that_are_set_back_and_other_trainings_in_a_row_are_quiet(tmp_path: Path, script: str) -> None:
    assert "folds_share_a_model" not in [each.cause for each in alarms(script, tmp_path)]
