"""Data that are prepared in one way for the training, and in another one for the evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

FIT = (
    HEAD + "from torch.utils.data import DataLoader, TensorDataset\n"
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))\n"
    "    def forward(self, x):\n        return self.body(x)\n"
    "net = Net()\noptimizer = torch.optim.SGD(net.parameters(), 0.01)\n"
    "x = 10 + 3 * torch.randn(160, 4)\ny = x[:, :1] - 10\n{}"
    "for step in range(8):\n    rows = torch.randint(0, 128, (32,))\n    inputs, targets = x[rows], y[rows]\n{}"
    "    loss = F.mse_loss(net(inputs), targets)"
    + TRAIN
    + "net.eval()\nwith torch.no_grad():\n    held_out = x[128:]\n{}"
)
SCORE = "    print(F.mse_loss(net(held_out), y[128:]))"
STATISTICS = "mean, std = x[:128].mean(0), x[:128].std(0)\n"
FAULTS = {
    "normalized in training only": FIT.format(STATISTICS, "    inputs = (inputs - mean) / std\n", SCORE + "  # HERE\n"),
    "normalized by the batch in training only": FIT.format(
        "", "    inputs = (inputs - inputs.mean(0)) / inputs.std(0)\n", SCORE + "  # HERE\n"
    ),
    "scaled in training only": FIT.format("", "    inputs = inputs * 0.1\n", SCORE + "  # HERE\n"),
    "logarithms in the evaluation only": FIT.format(
        "", "", "    held_out = held_out.abs().log()  # HERE\n" + SCORE + "\n"
    ),
    "a loader of normalized samples": FIT.format(
        STATISTICS + "loader = DataLoader(TensorDataset((x[:128] - mean) / std, y[:128]), 32)\n", "",
        SCORE + "  # HERE\n",
    ).replace("    rows = torch.randint(0, 128, (32,))\n    inputs, targets = x[rows], y[rows]\n", "").replace(
        "for step in range(8):", "for inputs, targets in loader:"
    ),
}  # fmt: skip
HEALTHY = {
    "the same, written otherwise": FIT.format(
        "", "    inputs = 0.2 * inputs - 2\n", "    held_out = (held_out - 10) / 5\n" + SCORE
    ),
    "bounds that no value reaches": FIT.format("", "    inputs = inputs.clamp(-100, 100)\n", SCORE),
    "axes that are moved in two ways": FIT.format(
        "columns = x.T.contiguous()\n",
        "    inputs = columns[:, :32].permute(1, 0)\n",
        SCORE.replace("held_out", "columns[:, 128:].movedim(0, 1)"),
    ),
    "beyond the samples": FIT.format(
        "", "", "    held_out = held_out + 8\n" + SCORE.replace("y[128:]", "held_out[:, :1] - 10")
    ),
    "between two samples": FIT.format("", "", "    print(net((x[:8] + x[8:16]) / 2).mean())\n"),
    "normalized in both": FIT.format(
        STATISTICS, "    inputs = (inputs - mean) / std\n", "    held_out = (held_out - mean) / std\n" + SCORE
    ),
    "noise in training only": FIT.format("", "    inputs = inputs + 0.1 * torch.randn_like(inputs)\n", SCORE),
    "values that are left out at random": FIT.format(
        "", "    inputs = inputs * (torch.rand_like(inputs) > 0.1).float()\n", SCORE
    ),
    "some of another sample": FIT.format("", "    inputs = 0.9 * inputs + 0.1 * inputs[torch.randperm(32)]\n", SCORE),
    "values of what follows, as targets": FIT.format(
        "", "    with torch.no_grad():\n        targets = targets + 0.9 * net(0.5 * inputs)\n", SCORE
    ),
    "a brightness that changes": FIT.format("", "    inputs = inputs * (0.8 + 0.05 * step)\n", SCORE),
    "a step against the gradient of the input": FIT.format(
        "",
        "    probe = inputs.clone().requires_grad_()\n"
        "    slope, = torch.autograd.grad(F.mse_loss(net(probe), targets), probe)\n"
        "    inputs = inputs + 0.01 * slope.sign()\n",
        SCORE,
    ),
    "scored on raw samples and on normalized ones": FIT.format(
        STATISTICS, "    inputs = (inputs - mean) / std\n",
        SCORE + "\n    print(F.mse_loss(net((held_out - mean) / std), y[128:]))\n",
    ),
}  # fmt: skip


TWO_SETS = (
    HEAD
    + """
from torch.utils.data import DataLoader, Dataset
class Images(Dataset):
    def __init__(self, n, transform=None):
        self.labels = torch.randint(0, 3, (n,))
        self.images = torch.rand(n, 3, 8, 8) + 0.5 * self.labels[:, None, None, None]
        self.transform = transform
    def __len__(self):
        return len(self.labels)
    def __getitem__(self, i):
        image = self.images[i]
        return (image if self.transform is None else self.transform(image)), self.labels[i]
mean, std = torch.full((3, 1, 1), 0.9), torch.full((3, 1, 1), 0.5)
def normalize(image):
    return (image - mean) / std
def augment(image):
    return normalize(image.flip(-1) if torch.rand(()) < 0.5 else image)
def noisy(image):
    return image + 0.1 * torch.randn_like(image)
net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=0.001)
train = DataLoader(Images(96, {train}), 16, shuffle=True)
held_out = DataLoader(Images(48{held_out}), 16)  # HERE
for epoch in range({epochs}):
    net.train()
    for image, label in train:
        loss = F.cross_entropy(net(image), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        print(sum({score} for image, label in held_out))
"""
)
RIGHT = "(net(image).argmax(1) == label).sum()"


@pytest.mark.parametrize("epochs", [1, 4])
@pytest.mark.parametrize("transform", ["normalize", "augment", "lambda image: image.mul(2).sub(1)"])
def test_a_data_set_without_the_transform_of_the_other_is_told(transform: str, epochs: int, tmp_path: Path) -> None:
    script = TWO_SETS.format(train=transform, held_out="", epochs=epochs, score=RIGHT)
    assert_first_alarm(script, "prepared_otherwise", tmp_path)


@pytest.mark.parametrize(
    ("train", "held_out", "score"),
    [
        ("augment", ", normalize", RIGHT),
        ("lambda image: 2 * image - 1", ", lambda image: (image - 0.5) / 0.5", RIGHT),
        ("noisy", "", RIGHT),
        ("lambda image: normalize(noisy(image))", ", normalize", RIGHT),
        ("lambda image: (0.8 + 0.4 * torch.rand(())) * image", "", RIGHT),
        ("lambda image: torch.rand(()).item() * image", "", RIGHT),
        # What the network makes of other inputs.
        ("normalize", "", "net(image).softmax(1).amax(1).sum()"),
    ],
)
def test_two_data_sets_that_are_prepared_alike_are_right(train: str, held_out: str, score: str, tmp_path: Path) -> None:
    assert not alarms(TWO_SETS.format(train=train, held_out=held_out, epochs=3, score=score), tmp_path)


DRAWN = (
    HEAD
    + """
w = torch.randn(4, 1)
def draw(n):
    x = 50 + 20 * torch.randn(n, 4)
    return x, (x - 50) @ w
def batches(x, y):
    for rows in torch.arange(len(x)).split(16):
        yield x[rows], y[rows]
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
train, held_out = draw(96), draw(32)
center, scale = train[0].mean(0), train[0].std(0)
for epoch in range(3):
    for x, y in batches(*train):
        loss = F.mse_loss(net((x - center) / scale), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
with torch.no_grad():
    for x, y in batches(*held_out):
        print(F.mse_loss(net({inputs}), y))
"""
)


def test_data_of_one_function_that_are_not_normalized_are_told(tmp_path: Path) -> None:
    assert [each.cause for each in alarms(DRAWN.format(inputs="x"), tmp_path)] == ["prepared_otherwise"]
    assert not alarms(DRAWN.format(inputs="(x - center) / scale"), tmp_path)


BY_FLAG = (
    TWO_SETS.replace("self.transform = transform", "self.is_train = transform")
    .replace("torch.rand(n, 3, 8, 8)", "(200 * torch.rand(n, 3, 8, 8)).byte() / 255")
    .replace(
        "return (image if self.transform is None else self.transform(image)), self.labels[i]",
        "return (image if self.is_train is not {only} else (image - 0.6) / 0.3), self.labels[i]",
    )
)


def test_a_flag_of_training_that_normalizes_is_told(tmp_path: Path) -> None:
    script = BY_FLAG.format(train=True, held_out=", False", epochs=3, score=RIGHT, only=True)
    assert [each.cause for each in alarms(script, tmp_path)] == ["prepared_otherwise"]
    assert not alarms(BY_FLAG.format(train=True, held_out=", True", epochs=3, score=RIGHT, only=True), tmp_path)


LOADED = (
    HEAD
    + """
def load(seed, n):
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 4, generator=g) * torch.tensor([1.0, 10.0, 100.0, 5.0])
    return x, (x[:, 1] / 10 + x[:, 2] / 100 > 1).float()
x, y = load(0, 160)
held_out, wanted = load(1, 40)  # HERE
mean, std = x.mean(0), x.std(0)
x = (x - mean) / std
{more}
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(12):
    rows = torch.randint(0, 160, (32,))
    loss = F.binary_cross_entropy_with_logits(net(x[rows])[:, 0], y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    print((net(held_out)[:, 0] > 0).eq(wanted > 0).float().mean())
"""
)


def test_data_of_one_function_of_which_some_are_normalized_before_are_told(tmp_path: Path) -> None:
    assert_first_alarm(LOADED.format(more=""), "prepared_otherwise", tmp_path)
    assert not alarms(LOADED.format(more="held_out = (held_out - mean) / std"), tmp_path)


def test_samples_that_one_line_takes_of_data_of_one_range_are_right(tmp_path: Path) -> None:
    script = DRAWN.format(inputs="x").replace("held_out = draw(96), draw(32)", "held_out = draw(96), made(32)")
    made = "def made(n):\n    x = torch.randn(n, 4)\n    return x, 20 * x @ w\n"
    assert not alarms(script.replace("def batches", made + "def batches"), tmp_path)


@pytest.mark.parametrize("name", FAULTS)
def test_the_line_of_the_evaluation_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(FAULTS[name], "prepared_otherwise", tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_the_same_preparations_and_augmentations_are_no_alarms(name: str, tmp_path: Path) -> None:
    assert alarms(HEALTHY[name], tmp_path) == []


TASKS = (
    HEAD
    + """
centres = 0.9 * torch.randn(4, 6)
moved = centres.mean(0) + 3 * torch.randn(6)

def task(count, shift):
    labels = torch.randint(4, (count,))
    return centres[labels] + torch.randn(count, 6) + shift, labels

x, y = task(160, 0.0)
held_out, labels = task(80, moved)
net = nn.Linear(6, 4)
optimizer = torch.optim.SGD(net.parameters(), 0.05)
for step in range(8):
    rows = torch.randint(0, 160, (32,))
    loss = F.cross_entropy(net(x[rows]), y[rows])
"""
    + TRAIN
    + """
with torch.no_grad():
    print((net(held_out).argmax(1) == labels).float().mean())
"""
)


def test_samples_drawn_around_the_same_centres_are_no_preparation(tmp_path: Path) -> None:
    assert alarms(TASKS, tmp_path) == []
