"""A validation set that overlaps with the training set, and a lower bound whose parts are reduced in different ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

SPLIT = """
inputs, targets = torch.randn(50, 4), torch.randn(50, 1)
{split}
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = F.mse_loss(model(inputs[train]), targets[train])
"""
CHECKS = """
with torch.no_grad():
    print(F.mse_loss(model(inputs[held_out]), targets[held_out]))
"""
TWICE = (
    "held_out = torch.randperm(50)[-10:]\ntrain = torch.randperm(len(inputs))[:-10]  # HERE",
    "def part(n, last):\n    order = torch.randperm(n)  # HERE\n    return order[40:] if last else order[:40]\n"
    "train, held_out = part(50, False), part(50, True)",
    "def part(n, name):\n    order = torch.randperm(n)  # HERE\n"
    "    return {'train': order[:40], 'rest': order[40:]}[name]\n"
    "train, held_out = part(50, 'train'), part(50, 'rest')",
    "train, _ = torch.randperm(50).split([40, 10])\n_, held_out = torch.randperm(50).split([40, 10])  # HERE",
    "train = torch.randperm(50).narrow(0, 0, 40)\nheld_out = torch.rand(50).argsort()[40:]  # HERE",
)
AS_LISTS = (
    "train = torch.randperm(50).tolist()[:40]\nheld_out = torch.randperm(50).tolist()[40:]  # HERE",
    "order = list(torch.randperm(50))\ntrain = order[:40]\nother = list(torch.randperm(50))  # HERE\n"
    "held_out = other[40:]",
    "def part(n, last):\n    order = torch.randperm(n).tolist()  # HERE\n"
    "    return order[40:] if last else order[:40]\ntrain, held_out = part(50, False), part(50, True)",
    "whole = torch.utils.data.TensorDataset(inputs, targets)\n"
    "first, _ = torch.utils.data.random_split(whole, [40, 10])\n"
    "train = first.indices\n_, second = torch.utils.data.random_split(whole, [40, 10])  # HERE\n"
    "held_out = second.indices",
    "whole = list(range(50))\ntrain = list(torch.utils.data.random_split(whole, [0.8, 0.2])[0])\n"
    "held_out = list(torch.utils.data.random_split(whole, [0.8, 0.2])[1])  # HERE",
)
LISTS_OF_ONE = (
    "order = torch.randperm(50).tolist()\ntrain, held_out = order[:40], order[40:]",
    "def part(n, last):\n    torch.manual_seed(3)\n    order = torch.randperm(n).tolist()\n"
    "    return order[40:] if last else order[:40]\ntrain, held_out = part(50, False), part(50, True)",
    "train = torch.randperm(50).tolist()[:40]\nheld_out = torch.randperm(50).tolist()[:10]",
    "def part(n):\n    order = torch.randperm(n).tolist()\n    return order[:40], order[40:]\n"
    "train, held_out = part(50)\nothers = part(50)",
    "whole = list(range(50))\nfirst, second = torch.utils.data.random_split(whole, [40, 10])\n"
    "train, held_out = first.indices, second.indices",
    "whole, seed = list(range(50)), torch.Generator\n"
    "train = list(torch.utils.data.random_split(whole, [40, 10], generator=seed().manual_seed(1))[0])\n"
    "held_out = list(torch.utils.data.random_split(whole, [40, 10], generator=seed().manual_seed(1))[1])",
    "whole, more = list(range(50)), list(range(50))\n"
    "train = list(torch.utils.data.random_split(whole, [40, 10])[0])\n"
    "held_out = list(torch.utils.data.random_split(more, [40, 10])[1])",
)
ONCE = (
    "order = torch.randperm(50)\ntrain, held_out = order[:40], order[40:]",
    "held_out = torch.randperm(50, generator=torch.Generator().manual_seed(3))[40:]\n"
    "train = torch.randperm(50, generator=torch.Generator().manual_seed(3))[:40]",
    "train, held_out = torch.randperm(50)[:40], torch.randperm(50)[:40]",
    "def part(n, name):\n    torch.manual_seed(3)\n    order = torch.randperm(n)\n"
    "    return {'train': order[:40], 'rest': order[40:]}[name]\n"
    "train, held_out = part(50, 'train'), part(50, 'rest')",
    "def part(n, last):\n    order = torch.randperm(n)\n    return order[40:] if last else order[:40]\n"
    "torch.manual_seed(3)\ntrain = part(50, False)\ntorch.manual_seed(3)\nheld_out = part(50, True)",
    "other = torch.randn(50, 4)\ntrain, held_out = torch.randperm(50)[:40], torch.randperm(50)[40:]\n"
    "print(other[held_out].mean())\nheld_out = train",
    "train, held_out = torch.randperm(50).split([40, 10])",
    "order = torch.randperm(50)\nother = torch.randperm(50)\ntrain, held_out = order[:40], order.narrow(0, 40, 10)\n"
    "held_out = held_out[other[40:] % 10]",
)


@pytest.mark.parametrize("split", TWICE + AS_LISTS)
def test_two_parts_of_two_permutations_overlap(split: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + SPLIT.format(split=split) + TRAIN + CHECKS, "split_twice", tmp_path)


@pytest.mark.parametrize("split", ONCE + LISTS_OF_ONE)
def test_two_parts_of_one_permutation_are_right_and_so_are_samples(split: str, tmp_path: Path) -> None:
    assert not alarms(HEAD + SPLIT.format(split=split) + TRAIN + CHECKS, tmp_path)


AUTOENCODER = """
class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.spread, self.decoder = nn.Linear(12, 3), nn.Linear(12, 3), nn.Linear(3, 12)
    def forward(self, x):
        m, s = self.mean(x), self.spread(x)
        return self.decoder(m + torch.randn_like(m) * torch.exp(0.5 * s)), m, s

model = Autoencoder()
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
for step in range(100):
    x = torch.randn(32, {factors}) @ torch.ones({factors}, 12) if {factors} < 12 else torch.randn(32, 12)
    y, m, s = model(x)
"""
AVERAGED = (
    "    error = (y - x).pow(2).mean()  # HERE\n"
    "    loss = error + 0.5 * torch.sum(s.exp() + m ** 2 - 1 - s, -1).mean()",
    "    error = F.mse_loss(y, x)  # HERE\n    loss = error - 0.5 * torch.sum(1 + s - m.pow(2) - s.exp()) / x.shape[0]",
)
SUMMED = (
    "    kl = 0.5 * (m.norm() ** 2 + s.exp().sum() - s.sum() - m.numel())  # HERE\n    loss = F.mse_loss(y, x) + kl",
    "    kl = -0.5 * torch.sum(1 + s - m.pow(2) - s.exp())  # HERE\n"
    "    loss = sum({'error': (y - x).square().mean(), 'divergence': kl}.values())",
    "    kl = (s.exp() + m ** 2 - 1 - s).sum(1).sum().div(2)  # HERE\n"
    "    loss = torch.stack([F.l1_loss(y, x), kl]).sum()",
)


@pytest.mark.parametrize("loss", AVERAGED)
def test_a_posterior_that_collapsed_beside_an_averaged_error_is_told(loss: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + AUTOENCODER.format(factors=12) + loss + TRAIN, "divergence_outweighs", tmp_path)


HEALTHY = (
    (12, "    loss = (y - x).pow(2).sum(1).mean() + 0.5 * (s.exp() + m ** 2 - 1 - s).sum(1).mean()"),
    (1, "    loss = F.mse_loss(y, x) + 0.01 * (s.exp() + m ** 2 - 1 - s).sum(1).mean()"),
    (12, "    loss = F.mse_loss(y, x) + 0.5 * (s.exp() + m ** 2 - 1 - s).mean(dim=(0, 1))"),
    (1, "    loss = F.mse_loss(y, x) + 0.0005 * (s.exp() + m ** 2 - 1 - s).sum()"),
    (12, "    loss = F.mse_loss(y, x, reduction='sum') + 0.5 * (s.exp() + m ** 2 - 1 - s).sum()"),
    (12, "    loss = F.mse_loss(y, x) * x.numel() + 0.5 * (s.exp() + m ** 2 - 1 - s).sum()"),
)


@pytest.mark.parametrize("loss", SUMMED)
def test_a_divergence_of_a_whole_batch_beside_an_average_is_told(loss: str, tmp_path: Path) -> None:
    script = HEAD + AUTOENCODER.format(factors=12) + loss + TRAIN
    assert_first_alarm(script.replace("range(100)", "range(4)"), "divergence_outweighs", tmp_path)


@pytest.mark.parametrize(("factors", "loss"), HEALTHY)
def test_a_bound_with_two_sums_or_a_posterior_that_did_not_collapse_is_right(
    factors: int, loss: str, tmp_path: Path
) -> None:
    assert not alarms(HEAD + AUTOENCODER.format(factors=factors) + loss + TRAIN, tmp_path)


PARTS = """
from torch.utils.data import DataLoader, Subset, TensorDataset, random_split
data, net = TensorDataset(torch.randn(40, 3), torch.randn(40)), nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
{split}
for epoch in range(2):
    for x, y in DataLoader(train, 8, shuffle=True):
        loss = (net(x)[:, 0] - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print(sum((net(x)[:, 0] - y).square().sum() for x, y in DataLoader({held_out}, 8)))
"""
APART = (
    ("train = random_split(data, [32, 8])[0]\nheld = random_split(data, [32, 8])[1]  # HERE", "held"),
    (
        "class Data:\n    def part(self, name):\n"
        "        return dict(zip(('train', 'held'), random_split(data, [0.8, 0.2])))[name]\n\n"
        "train = Data().part('train')\nheld = Data().part('held')  # HERE",
        "held",
    ),
    (
        "train = Subset(data, torch.randperm(40).tolist()[:30])\n"
        "held = Subset(data, torch.randperm(40).tolist()[30:])  # HERE",
        "held",
    ),
)
TOGETHER = (
    ("train, held = random_split(data, [32, 8])", "held"),
    (
        "seeded = lambda: torch.Generator().manual_seed(1)\ntrain = random_split(data, [32, 8], seeded())[0]\n"
        "held = random_split(data, [32, 8], seeded())[1]",
        "held",
    ),
    # All samples are trained on, and some of them are looked at.
    ("train, seen = data, random_split(data, [32, 8])[1]\nrandom_split(data, [20, 20])", "seen"),
    ("order = torch.randperm(40).tolist()\ntrain, held = Subset(data, order[8:]), Subset(data, order[:8])", "held"),
)


@pytest.mark.parametrize(("split", "held_out"), APART)
def test_rows_that_two_splits_give_to_both_parts_are_told(split: str, held_out: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + PARTS.format(split=split, held_out=held_out), "split_twice", tmp_path)


@pytest.mark.parametrize(("split", "held_out"), TOGETHER)
def test_parts_of_one_split_are_right(split: str, held_out: str, tmp_path: Path) -> None:
    found = alarms(HEAD + PARTS.format(split=split, held_out=held_out), tmp_path)
    assert "split_twice" not in [each.cause for each in found]
