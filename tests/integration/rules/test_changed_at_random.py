from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

CAUSE = "changed_at_random"
PROGRAM = (
    HEAD
    + """
import numpy as np
x = torch.randn(120, 6)
y = (x[:, :2].sum(1) > 0).long()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(6, 12), nn.Linear(12, 2)
    def forward(self, x):
        {forward}
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(3):
    model.train()
    for i in range(0, 80, 20):
        loss = {loss}
        """
    + TRAIN.strip().replace("\n    ", "\n        ")
    + """
    model.eval()
    with torch.no_grad():
        {score}
"""
)
LOSS = "F.cross_entropy(model(x[i : i + 20]), y[i : i + 20])"
SCORE = "print((model(x[80:]).argmax(1) == y[80:]).float().mean().item())"
PLAIN = "return self.head(torch.relu(self.layer(x)))"


@pytest.mark.parametrize(
    "forward",
    [
        "x = x + 0.3 * torch.randn_like(x)  # HERE\n        " + PLAIN,
        "noise = torch.randn(x.shape)  # HERE\n        x = x + noise * 0.1\n        " + PLAIN,
        "keep = torch.rand(x.shape) > 0.2  # HERE\n        x = x * keep.float() / 0.8\n        " + PLAIN,
        "x = x.clone()\n        x += torch.normal(0.0, 0.2, size=x.shape)  # HERE\n        " + PLAIN,
        "x = x + torch.from_numpy(np.random.normal(0, 0.2, x.shape)).float()  # HERE\n        " + PLAIN,
        "x = x.masked_fill(torch.rand_like(x) < 0.1, 0.0)  # HERE\n        " + PLAIN,
        "h = torch.relu(self.layer(x))\n        h = h + torch.randn_like(h) * 0.2  # HERE\n        return self.head(h)",
    ],
)
def test_noise_and_masks_in_evaluation(forward: str, tmp_path: Path) -> None:
    assert_first_alarm(PROGRAM.format(forward=forward, loss=LOSS, score=SCORE), CAUSE, tmp_path)


def test_noise_that_a_function_adds(tmp_path: Path) -> None:
    script = PROGRAM.format(
        forward=PLAIN,
        loss="F.cross_entropy(model(augmented(x[i : i + 20])), y[i : i + 20])",
        score="print(F.cross_entropy(model(augmented(x[80:])), y[80:]).item())  # HERE",
    ).replace("model = Net()", "def augmented(x):\n    return x + torch.randn_like(x) / 5\nmodel = Net()")
    assert_first_alarm(script, CAUSE, tmp_path)


NOISY = "x = x + 0.3 * torch.randn_like(x)\n        " + PLAIN


@pytest.mark.parametrize(
    ("forward", "loss", "score"),
    [
        ("x = x + 0.3 * torch.randn_like(x) if self.training else x\n        " + PLAIN, LOSS, SCORE),
        # Several draws for each input, averaged.
        (NOISY, LOSS, "print(torch.stack([model(x[80:]) for _ in range(5)]).mean(0).argmax(1).eq(y[80:]).sum())"),
        (
            "h = torch.relu(self.layer(x))\n        return self.head(h * torch.bernoulli(torch.full_like(h, 0.8)))",
            LOSS,
            "print(sum(model(x[80:]).softmax(1) for _ in range(5)).argmax(1).eq(y[80:]).sum())",
        ),
        # A variational network: it returns the size of the noise.
        (
            "h = self.layer(x)\n        mean, log_scale = h.chunk(2, 1)\n        "
            "z = mean + log_scale.exp() * torch.randn_like(mean)\n        return self.head(torch.cat([z, mean], 1))",
            LOSS,
            SCORE,
        ),
        # What it should restore is the input.
        (
            "noisy = x + 0.3 * torch.randn_like(x)\n        return torch.relu(self.layer(noisy))[:, :6] - 0 * x.sum()",
            "F.mse_loss(model(x[i : i + 20]), x[i : i + 20])",
            "print(F.mse_loss(model(x[80:]), x[80:]).item())",
        ),
        # Robustness: scored without noise, and with more and more of it.
        (
            PLAIN,
            "F.cross_entropy(model(noised(x[i : i + 20], 0.1)), y[i : i + 20])",
            "print([(model(noised(x[80:], s)).argmax(1) == y[80:]).float().mean() for s in (0.1, 0.3, 0.5)])",
        ),
        (
            PLAIN,
            "F.cross_entropy(model(noised(x[i : i + 20], 0.1)), y[i : i + 20])",
            "print([(model(each).argmax(1) == y[80:]).float().mean() for each in (x[80:], noised(x[80:], 0.1))])",
        ),
        # Data that are drawn anew, around one centre for each class.
        (
            PLAIN,
            "F.cross_entropy(model(drawn(y[:20])), y[:20])",
            "print(model(drawn(y[:20])).argmax(1).eq(y[:20]).sum())",
        ),
        # An action that is drawn, and a state that moves at random.
        (
            PLAIN,
            "F.cross_entropy(model(x[i : i + 20]), torch.multinomial(model(x[i : i + 20]).softmax(1), 1)[:, 0])",
            "print(torch.multinomial(model(x[80:]).softmax(1), 1)[:, 0].eq(y[80:]).sum())",
        ),
        (
            "for _ in range(3):\n            x = x + 0.1 * torch.tanh(x) + 0.1 * torch.randn_like(x)\n        " + PLAIN,
            LOSS,
            SCORE,
        ),
        # Targets of a student, by the same line.
        (
            PLAIN,
            "F.mse_loss(model(noised(x[i : i + 20], 0.1)), soft(x[i : i + 20]))",
            "print((model(x[80:]).argmax(1) == y[80:]).sum())",
        ),
    ],
)
def test_draws_that_are_meant(forward: str, loss: str, score: str, tmp_path: Path) -> None:
    helpers = """
centres = torch.randn(2, 6)
def noised(x, size):
    return x + size * torch.randn_like(x)
def drawn(y):
    return centres[y] + torch.randn(len(y), 6)
def soft(x):
    with torch.no_grad():
        return model(noised(x, 0.1)).softmax(1)
model = Net()
"""
    script = PROGRAM.format(forward=forward, loss=loss, score=score).replace("model = Net()\n", helpers)
    assert CAUSE not in {finding.cause for finding in alarms(script, tmp_path)}


@pytest.mark.parametrize(
    ("loss", "score"),
    [
        # A masked model: the loss reads the mask, too.
        ("masked(x[i : i + 20])", "print(masked(x[80:]).item())"),
        # Diffusion: the noise is the target.
        ("diffused(x[i : i + 20])", "print(diffused(x[80:]).item())"),
        # Two views of each sample.
        ("views(x[i : i + 20])", "print(views(x[80:]).item())"),
    ],
)
def test_draws_that_a_loss_reads(loss: str, score: str, tmp_path: Path) -> None:
    helpers = """
back = nn.Linear(2, 6)
def masked(x):
    hidden = torch.rand_like(x) < 0.3
    error = (back(model(x.masked_fill(hidden, 0.0))) - x).square()
    return (error * hidden).sum() / hidden.sum()
def diffused(x):
    noise = torch.randn_like(x)
    return F.mse_loss(back(model(x + noise)), noise)
def view(x):
    return x + 0.1 * torch.randn_like(x)
def views(x):
    a, b = F.normalize(model(view(x)), dim=1), F.normalize(model(view(x)), dim=1)
    return F.cross_entropy(a @ b.T / 0.5, torch.arange(len(x)))
for epoch
"""
    script = PROGRAM.format(forward=PLAIN, loss=loss, score=score).replace("\nfor epoch", helpers.rstrip(), 1)
    assert CAUSE not in {finding.cause for finding in alarms(script, tmp_path)}


PICTURES = (
    HEAD
    + """
import random
from torch.utils.data import DataLoader, Dataset, TensorDataset
pictures, labels = torch.rand(96, 1, 10, 10), torch.randint(0, 2, (96,))
def augment(x):
    if torch.rand(1).item() < 0.5:
        x = x.flip(-1)
    top, left = random.randint(0, 4), random.randint(0, 4)
    x = F.pad(x, (2, 2, 2, 2))
    return x[:, :, top : top + 10, left : left + 10]
class Pictures(Dataset):
    def __init__(self, x, y, is_training=True):
        self.x, self.y, self.is_training = x, y, is_training
    def __len__(self):
        return len(self.x)
    def __getitem__(self, i):
        x = self.x[i]
        {item}
        return x, self.y[i]
train, held_out = {parts}
train, held_out = DataLoader(train, 16, shuffle=True), DataLoader(held_out, 16)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
def run(loader, is_training):
    right = 0
    for x, y in loader:
        {batch}
        with torch.set_grad_enabled(is_training):
            scores = {scores}
            loss = F.cross_entropy(scores, y)
        if is_training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        right += (scores.argmax(1) == y).sum().item()
    return right / len(loader.dataset)
for epoch in range(4):
    print(run(train, True), run(held_out, False))
"""
)
PLAIN_PARTS = "TensorDataset(pictures[:64], labels[:64]), TensorDataset(pictures[64:], labels[64:])"
PARTS = "Pictures(pictures[:64], labels[:64]), Pictures(pictures[64:], labels[64:])"
FLIP = "if random.random() < 0.5:\n            x = x.flip(-1)"


@pytest.mark.parametrize(
    ("item", "parts", "batch"),
    [
        ("pass", PLAIN_PARTS, "x = augment(x)  # HERE"),
        (FLIP + "  # HERE", PARTS, "pass"),
        (
            "x, i, j = x.clone(), random.randint(0, 5), random.randint(0, 5)\n"
            "        x[0, i : i + 4, j : j + 4] = 0  # HERE",
            PARTS,
            "pass",
        ),
        ("x = torch.roll(x, random.randint(-2, 2), dims=1)  # HERE", PARTS, "pass"),
    ],
)
def test_augmented_in_evaluation(item: str, parts: str, batch: str, tmp_path: Path) -> None:
    script = PICTURES.format(item=item, parts=parts, batch=batch, scores="model(x)")
    assert_first_alarm(script, CAUSE, tmp_path)


@pytest.mark.parametrize(
    ("item", "parts", "batch", "scores"),
    [
        ("pass", PLAIN_PARTS, "x = augment(x) if is_training else x", "model(x)"),
        (FLIP.replace("if ", "if self.is_training and "), PARTS.replace("[64:])", "[64:], False)"), "pass", "model(x)"),
        # Averaged over several views.
        ("pass", PLAIN_PARTS, "pass", "sum(model(augment(x)) for _ in range(4)) / 4"),
        # The same order for all, no draw.
        ("pass", PLAIN_PARTS, "x = x.flip(-1)", "model(x)"),
    ],
)
def test_augmentation_that_is_right(item: str, parts: str, batch: str, scores: str, tmp_path: Path) -> None:
    script = PICTURES.format(item=item, parts=parts, batch=batch, scores=scores)
    assert CAUSE not in {finding.cause for finding in alarms(script, tmp_path)}


def test_windows_of_a_long_series(tmp_path: Path) -> None:
    script = (
        HEAD
        + """
series = torch.randint(0, 20, (400,))
model = nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 20))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
def batch(part):
    starts = [torch.randint(len(part) - 9, (1,)).item() for _ in range(8)]
    return torch.stack([part[i : i + 8] for i in starts]), torch.stack([part[i + 1 : i + 9] for i in starts])
for step in range(6):
    x, y = batch(series[:300])
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        x, y = batch(series[300:])
        print(F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item())
"""
    )
    assert CAUSE not in {finding.cause for finding in alarms(script, tmp_path)}


def test_a_data_set_that_gives_the_clean_samples_as_targets(tmp_path: Path) -> None:
    script = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
torch.manual_seed(0)
class Noisy(Dataset):
    def __init__(self, clean):
        self.clean = clean
    def __len__(self):
        return len(self.clean)
    def __getitem__(self, i):
        return self.clean[i] + 0.3 * torch.randn(16), self.clean[i]
data = torch.randn(128, 16).cumsum(1)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for epoch in range(4):
    for noisy, clean in DataLoader(Noisy(data[:96]), batch_size=32, shuffle=True):
        loss = nn.functional.mse_loss(model(noisy), clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print(sum(nn.functional.mse_loss(model(x), y).item() for x, y in DataLoader(Noisy(data[96:]), batch_size=32)))
"""
    assert [f"{each.cause}: {each.message}" for each in alarms(script, tmp_path)] == []


def test_a_function_that_draws_the_targets_and_makes_noisy_samples_of_them(tmp_path: Path) -> None:
    script = (
        HEAD
        + """
shapes = torch.randn(6, 8)
model = nn.GRU(8, 6)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
def batch():
    labels, lengths = torch.randint(1, 6, (4, 3)), torch.randint(1, 4, (4,))
    x = torch.zeros(6, 4, 8)
    for i in range(4):
        path = [c for k in range(lengths[i]) for c in (labels[i, k].item(), 0)]
        x[: len(path), i] = shapes[path] + 0.1 * torch.randn(len(path), 8)
    return x, labels, lengths
for step in range(6):
    x, labels, lengths = batch()
    loss = F.ctc_loss(model(x)[0].log_softmax(2), labels, torch.full((4,), 6), lengths)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    x, labels, lengths = batch()
    print(model(x)[0].argmax(2).tolist(), labels.tolist())
"""
    )
    assert CAUSE not in {finding.cause for finding in alarms(script, tmp_path)}


def test_samples_that_are_found_out_from_noisy_measurements(tmp_path: Path) -> None:
    script = (
        HEAD
        + """
data, sensors, model = torch.randn(80, 8), torch.randn(8, 5), nn.Linear(5, 8)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
def measured(x):
    clean = x @ sensors
    return clean + 0.05 * torch.randn_like(clean)
for epoch in range(3):
    for rows in torch.randperm(60).split(20):
        loss = F.mse_loss(model(measured(data[rows])), data[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
for epoch in range(3):
    for rows in torch.randperm(60).split(20):
        x = data[rows]
        loss = F.mse_loss(model(measured(x)), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
with torch.no_grad():
    print(F.mse_loss(model(measured(data[60:])), data[60:]).item())
"""
    )
    assert CAUSE not in {finding.cause for finding in alarms(script, tmp_path)}


def test_a_function_that_draws_series_with_noise_and_their_ends(tmp_path: Path) -> None:
    script = (
        HEAD
        + """
def batch(n):
    t = torch.arange(24.0)[None]
    phase, level = 6.28 * torch.rand(n, 1), torch.randn(n, 1)
    y = torch.sin(0.3 * t + phase) + level
    y = y + (torch.rand(n, 12) < 0.1).float().repeat(1, 2) + 0.05 * torch.randn(n, 24)
    return y[:, :-4], y[:, -4:]
model = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(12):
    x, y = batch(32)
    loss = F.mse_loss(model(x), y)
"""
        + TRAIN
        + """
model.eval()
with torch.no_grad():
    x, y = batch(128)
    print(F.mse_loss(model(x), y).item())
"""
    )
    assert not alarms(script, tmp_path)


def test_noisy_samples_that_a_data_set_makes_once(tmp_path: Path) -> None:
    script = (
        HEAD
        + """
class Tones(torch.utils.data.Dataset):
    def __init__(self, count):
        self.items = [self.made() for _ in range(count)]
    def made(self):
        label = torch.randint(0, 3, ()).item()
        tone = torch.zeros(torch.randint(3, 6, ()).item(), 4)
        tone[:, label] = 1.0
        x = torch.cat([tone, torch.zeros(2, 4)])
        return x + 0.2 * torch.randn_like(x), label
    def __len__(self):
        return len(self.items)
    def __getitem__(self, index):
        return self.items[index]
def together(items):
    xs, ys = zip(*items)
    return nn.utils.rnn.pad_sequence(xs, batch_first=True), torch.tensor(ys)
net, head = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 3)
optimizer = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=0.01)
loader = torch.utils.data.DataLoader(Tones(40), 20, shuffle=True, collate_fn=together)
for epoch in range(2):
    for x, y in loader:
        loss = F.cross_entropy(head(net(x)[1][0]), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
with torch.no_grad():
    x, y = together(Tones(12).items)
    print((head(net(x)[1][0]).argmax(1) == y).float().mean().item())
"""
    )
    assert CAUSE not in [each.cause for each in alarms(script, tmp_path)]
