"""Samples that a permutation puts into another order, without their labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

DATA = """
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
X = torch.randn(96, 8)
Y = (X @ torch.randn(8, 3)).argmax(1)
encoded = X * 2 + 1
"""
STEPS = "for step in range(3):\n"
PARTS = "    for x, y in zip(X.split(32), Y.split(32)):\n        loss = F.cross_entropy(model(x), y)"
EACH_PART = TRAIN.replace("\n    ", "\n        ")
FAULTY: tuple[str, ...] = (
    f"X = X[torch.randperm(96)]  # HERE\n{STEPS}{PARTS}{EACH_PART}",
    f"{STEPS}    X = X[torch.randperm(96)]  # HERE\n{PARTS}{EACH_PART}",
    f"{STEPS}    x, y = X[32 * step:32 * step + 32], Y[32 * step:32 * step + 32]\n"
    f"    x = x.index_select(0, torch.randperm(32))  # HERE\n    loss = F.cross_entropy(model(x), y)\n{TRAIN}",
    f"{STEPS}    labels = Y[torch.randperm(96)]  # HERE\n"
    f"    loss = F.cross_entropy(model(encoded[32 * step:32 * step + 32]), labels[32 * step:32 * step + 32])\n{TRAIN}",
)
DRAWN = f"order = torch.randperm(96)\n{STEPS}    part = order[32 * step:32 * step + 32]\n    x, y = X[part], Y[part]\n"
FAULTY += (f"{DRAWN}    mixed = x[torch.randperm(32)]  # HERE\n    loss = F.cross_entropy(model(mixed), y)\n{TRAIN}",)
HEALTHY = (
    f"{DRAWN}    again = torch.randperm(32)\n    loss = F.cross_entropy(model(x[again]), y[again])\n{TRAIN}",
    f"{DRAWN}    noisy = x + 0.1 * x[torch.randperm(32)]\n    loss = F.cross_entropy(model(noisy), y)\n{TRAIN}",
    f"{STEPS}    order = torch.randperm(96)\n    X, Y = X[order], Y[order]\n{PARTS}{EACH_PART}",
    # Mixtures of two samples, and values that go back into their order.
    f"{STEPS}    order = torch.randperm(96)\n    out = model(0.7 * X + 0.3 * X[order])\n"
    f"    loss = 0.7 * F.cross_entropy(out, Y) + 0.3 * F.cross_entropy(out, Y[order])\n{TRAIN}",
    f"{STEPS}    order = torch.randperm(96)\n    loss = F.cross_entropy(model(X[order])[order.argsort()], Y)\n{TRAIN}",
    # Noise belongs to no sample; pairs that do not belong together have a constant target.
    "model = nn.Linear(8, 8)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    f"{STEPS}    x, noise = X[torch.randperm(96)], torch.randn(96, 8)\n"
    f"    loss = F.mse_loss(model(0.8 * x + 0.6 * noise), noise)\n{TRAIN}",
    f"{STEPS}    out = model(X[torch.randperm(96)])\n"
    f"    loss = F.cross_entropy(out, torch.zeros(96, dtype=torch.long)) + F.cross_entropy(model(X), Y)\n{TRAIN}",
)


@pytest.mark.parametrize("training", FAULTY)
def test_samples_that_are_ordered_without_their_labels_are_told(training: str, tmp_path: Path) -> None:
    assert_first_alarm(f"{HEAD}{DATA}{training}", "shuffled_apart", tmp_path)


@pytest.mark.parametrize("training", HEALTHY)
def test_other_orders_are_left_alone(training: str, tmp_path: Path) -> None:
    found = alarms(f"{HEAD}{DATA}{training}", tmp_path)
    assert "shuffled_apart" not in {each.cause for each in found}


TAUGHT = """
from torch.utils.data import DataLoader, TensorDataset
x, y = torch.randn(64, 4), torch.randint(0, 3, (64,))
teacher, student = nn.Linear(4, 3).requires_grad_(False), nn.Linear(4, 3)
wanted = teacher(x).softmax(1)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for i, (inputs, {more}) in enumerate(DataLoader(TensorDataset({data}), 16, shuffle={shuffle})):
    soft = {soft}
    loss = F.kl_div(student(inputs).log_softmax(1), soft, reduction="batchmean")"""
SLICED = "wanted[i * 16 : i * 16 + 16]"


@pytest.mark.parametrize(
    "soft", [SLICED, f"{SLICED}.log().softmax(1)", f"torch.sigmoid({SLICED})"], ids=["kept", "normalized", "squashed"]
)
def test_results_in_the_order_of_the_data_beside_a_loader_that_shuffles_are_told(soft: str, tmp_path: Path) -> None:
    script = TAUGHT.format(more="labels", data="x, y", shuffle=True, soft=f"{soft}  # HERE")
    assert_first_alarm(HEAD + script + TRAIN, "shuffled_apart", tmp_path)


@pytest.mark.parametrize(
    "given",
    [
        {"more": "labels", "data": "x, y", "shuffle": False, "soft": SLICED},
        {"more": "labels", "data": "x, y", "shuffle": False, "soft": f"({SLICED} / 2).softmax(1)"},
        {"more": "place", "data": "x, torch.arange(64)", "shuffle": True, "soft": "(wanted[place] / 2).softmax(1)"},
        {"more": "part", "data": "x, wanted", "shuffle": True, "soft": "part"},
        {"more": "place", "data": "x, torch.arange(64)", "shuffle": True, "soft": "wanted[place]"},
    ],
)
def test_results_in_the_order_of_the_loader_are_right(given: dict[str, object], tmp_path: Path) -> None:
    assert "shuffled_apart" not in {each.cause for each in alarms(HEAD + TAUGHT.format(**given) + TRAIN, tmp_path)}


LOADED = """
from torch.utils.data import DataLoader, Dataset, TensorDataset
class Listed(Dataset):
    def __init__(self, x, y, order):
        self.x, self.y, self.order = x, y, order
    def __len__(self):
        return len(self.x)
    def __getitem__(self, i):
        return self.x[i], self.y[self.order[i]]
order = torch.randperm(96)
{order}
for x, y in DataLoader({data}, batch_size=16, shuffle=True):
    loss = F.cross_entropy(model(x), y)
"""
PAIRS = "TensorDataset(X[:80], Y[:80])"


@pytest.mark.parametrize("data", [PAIRS, "TensorDataset(X, Y)", "Listed(X, Y, range(96))"])
def test_a_loader_of_samples_that_were_ordered_without_their_labels(data: str, tmp_path: Path) -> None:
    script = HEAD + DATA + LOADED.format(order="X = X[order]  # HERE", data=data) + TRAIN
    assert_first_alarm(script, "shuffled_apart", tmp_path)


@pytest.mark.parametrize(
    ("order", "data"),
    [
        ("X, Y = X[order], Y[order]", PAIRS),
        ("X = X[order]; Y = (X[:, 0] > 0).long()", PAIRS),
        ("X = X[order]", "Listed(X, Y, order.tolist())"),
        ("X = X[order]; Y = torch.zeros_like(Y)", PAIRS),
    ],
)
def test_a_loader_of_samples_and_labels_in_one_order(order: str, data: str, tmp_path: Path) -> None:
    found = alarms(HEAD + DATA + LOADED.format(order=order, data=data) + TRAIN, tmp_path)
    assert "shuffled_apart" not in {each.cause for each in found}
