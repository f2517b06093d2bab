"""Loops that end at their first batch, loaders that nothing reads, learning rates that only a variable has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, alarms, assert_first_alarm

DATA = (
    HEAD + "from torch.utils.data import DataLoader, TensorDataset, random_split\n"
    "x = torch.randn(80, 4)\ny = (x.sum(1) > 0).long()\n"
    "fit_on, held_out = random_split(TensorDataset(x, y), [64, 16])\n"
    "loader = DataLoader(fit_on, batch_size=16, shuffle=True)\nother = DataLoader(held_out, batch_size=8)\n"
    "net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))\n"
    "{}optimizer = torch.optim.SGD(net.parameters(), lr={})\n"
)
TRAIN = """
def train(batches):
    total = 0.0
    for x, y in batches:{}
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
{}
"""
SCORE = """
@torch.no_grad()
def score(batches):
    right = seen = 0
    for x, y in batches:
        right += (net(x).argmax(1) == y).sum().item()
        seen += len(y)
{}
"""
FIT = TRAIN.format("", "    return total / len(batches)")
RATE = SCORE.format("    return right / seen")
GO = "for epoch in range(3):\n    print(train({}), score({}))\n"
SHORT = "for epoch in range(3):\n    for x, y in loader:\n        loss = F.cross_entropy(net(x), y)\n" + (
    "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n{}"
)
OWN_CLASS = """
class Trainer:
    def __init__(self, net, rate):
        self.net, self.rate = net, rate
        self.optimizer = torch.optim.Adam(net.parameters(), lr=self.rate)
    def fit(self, epochs):
        for epoch in range(epochs):
            for x, y in loader:
                self.optimizer.zero_grad()
                F.cross_entropy(self.net(x), y).backward()
                self.optimizer.step()
            if epoch % 2:
                self.rate = self.rate / 10{}
                print(f"now {{self.rate}}")
Trainer(net, 0.01).fit(4)
print(sum((net(x).argmax(1) == y).sum() for x, y in other))
"""
PLAIN = DATA.format("", "0.1")
FAULTS = {
    "a return inside the loop": (
        "left_at_once",
        PLAIN + TRAIN.format("", "        return total / len(batches)  # HERE") + RATE + GO.format("loader", "other"),
    ),
    "a return inside the loop that scores": (
        "left_at_once",
        PLAIN + FIT + SCORE.format("        return right / seen  # HERE") + GO.format("loader", "other"),
    ),
    "a break that was left": (
        "left_at_once", PLAIN + RATE + SHORT.format("        break  # HERE\n    print(score(other))\n"),
    ),
    "a break in an iterator that is made in each round": (
        "left_at_once",
        PLAIN + RATE + SHORT.replace("    for x, y in loader", "    it = iter(loader)\n    for x, y in it").format(
            "        break  # HERE\n    print(score(other))\n"
        ),
    ),
    "scored on what it is trained with": (
        "part_never_read",
        PLAIN + FIT + RATE + "for epoch in range(3):\n    train(loader)\n    print(score(loader))  # HERE\n",
    ),
    "trained on what it is scored with": (
        "part_never_read",
        PLAIN + RATE + SHORT.replace("in loader:", "in other:  # HERE").format("    print(score(other))\n"),
    ),
    "a variable that decays": (
        "rate_in_variable",
        DATA.format("rate = 0.1\n", "rate") + FIT + RATE + GO.format("loader", "other") + "    rate *= 0.9  # HERE\n",
    ),
    "an attribute that decays": ("rate_in_variable", PLAIN + OWN_CLASS.format("  # HERE")),
}  # fmt: skip
SCORED = (
    PLAIN
    + FIT
    + """
def score(batches):
    net.eval()
    {}
    with torch.no_grad():
        for x, y in batches:
            {}
    net.train()
    return {}
for epoch in range(3):
    train(loader)
    print(score(other))
"""
)
SPLIT = (
    HEAD + "x = torch.randn(80, 4)\ny = x.sum(1, keepdim=True)\n{}"
    "net = nn.Linear(4, 1)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    "for step in range(6):\n    rows = torch.randint(0, 64, (16,))\n"
    "    loss = F.mse_loss(net(fit_x[rows]), fit_y[rows])\n"
    "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
    "with torch.no_grad():\n    {}\n"
)
SLICES = "fit_x, held_x = x[:64], x[64:]\nfit_y, held_y = y[:64], y[64:]\n"
HALVES = (
    "def train_test_split(a, b, test_size):\n    n = len(a) - test_size\n    return a[:n], a[n:], b[:n], b[n:]\n"
    "fit_x, held_x, fit_y, held_y = train_test_split(x, y, test_size=16)\n"
)
FAULTS |= {
    "scored on the slice that trains": (
        "part_never_read",
        SPLIT.format(SLICES, "print(F.mse_loss(net(fit_x), fit_y))  # HERE"),
    ),
    "scored on the half that trains": (
        "part_never_read",
        SPLIT.format(HALVES, "print(F.mse_loss(net(fit_x), fit_y))  # HERE"),
    ),
    "a count of the last batch": (
        "score_of_last_batch",
        SCORED.format("seen = 0", "right = (net(x).argmax(1) == y).sum().item()  # HERE", "right / 16"),
    ),
    "a loss of the last batch": (
        "score_of_last_batch",
        SCORED.format(
            "seen = 0", "loss = F.cross_entropy(net(x), y)  # HERE\n            seen += len(y)", "loss.item()"
        ),
    ),
}
HEALTHY = {
    "scored on the other slice": SPLIT.format(SLICES, "print(F.mse_loss(net(held_x), held_y))"),
    "scored on both halves": SPLIT.format(
        HALVES, "print(F.mse_loss(net(fit_x), fit_y), F.mse_loss(net(held_x), held_y))"
    ),
    "a third part that is left": PLAIN + "spare = DataLoader(held_out)\n" + FIT + RATE + GO.format("loader", "other"),
    "a list of scores": SCORED.format("all = []", "all.append(F.cross_entropy(net(x), y).item())", "sum(all) / 2"),
    "a rate that grows": SCORED.format(
        "right = seen = 0",
        "right += (net(x).argmax(1) == y).sum()\n            seen += len(y)\n            rate = right / seen", "rate",
    ),
    "predictions of the last batch to look at": SCORED.format(
        "total = 0", "out = net(x)\n            total += F.cross_entropy(out, y).item()", "total / 2, out.argmax(1)[:4]"
    ),
    "one set of samples, with several thresholds": SCORED.format(
        "x, y = next(iter(batches))",
        "pass\n        for least in (0.3, 0.5, 0.7):\n"
        "            share = (net(x).softmax(1)[:, 1] > least).float().mean().item()", "share",
    ).replace("for x, y in batches", "for _ in range(1)"),
    "one set of samples, with several models": SCORED.format(
        "x, y = next(iter(batches))\n    others = [net, nn.Linear(4, 2)]",
        "pass\n        for count in (1, 2):\n"
        "            joint = (sum(each(x) for each in others[:count]).argmax(1) == y).float().mean().item()", "joint",
    ).replace("for x, y in batches", "for _ in range(1)"),
    "an average that an object keeps": SCORED.format(
        "meter = Meter()", "share = meter.update((net(x).argmax(1) == y).float().mean().item())", "share"
    ).replace(
        "def score(",
        "class Meter:\n    def __init__(self):\n        self.total, self.seen = 0.0, 0\n    def update(self, value):\n"
        "        self.total += value\n        self.seen += 1\n        return self.total / self.seen\ndef score(",
    ),
    "trial runs": SCORED.format("pass", "probe = net(torch.randn(8, 4)).mean()", "torch.isfinite(probe)"),
    "one batch": SCORED.format("batches = [(x, y)]", "loss = F.cross_entropy(net(x), y)", "loss.item()"),
    "a state that goes on": SCORED.format(
        "state = torch.zeros(2)", "state = 0.9 * state + net(x).mean(0)\n            size = state.norm()", "size"
    ),
    "nothing of it": PLAIN + FIT + RATE + GO.format("loader", "other"),
    "a return at a condition": PLAIN + RATE + GO.format("loader", "other").replace("train(", "fit(").replace(
        "for epoch",
        "def fit(batches):\n    for x, y in batches:\n        loss = F.cross_entropy(net(x), y)\n"
        "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n        if loss > 0.1:\n"
        "            continue\n        return loss.item()\nfor epoch", 1,
    ),
    "an iterator that goes on": PLAIN + RATE + "batches = iter(loader)\n"
    + SHORT.replace("in loader", "in batches").format("        break\n    print(score(other))\n"),
    "a stream without an end": PLAIN + RATE
    + "def stream():\n    while True:\n        rows = torch.randint(0, 64, (16,))\n        yield x[rows], y[rows]\n"
    + SHORT.replace("x, y in loader", "a, b in stream()").replace("net(x), y", "net(a), b").format(
        "        break\n    print(score(other))\n"
    ),
    "a part that is left out": SPLIT.format(
        SLICES.replace("held_", "_held_"), "print(F.mse_loss(net(fit_x), fit_y))"
    ),
    "a variable with the rate of the groups": DATA.format("rate = 0.1\n", "rate") + FIT + RATE
    + GO.format("loader", "other") + "    rate = optimizer.param_groups[0]['lr']\n    print(rate)\n",
    "an attribute that is read by its name": PLAIN + OWN_CLASS.format(
        '\n                for group in self.groups:\n                    group["lr"] = getattr(self, "rate")'
    ).replace("        self.optimizer = ", "        self.groups = []\n        self.optimizer = "),
    "an attribute that is read outside": PLAIN + OWN_CLASS.format("").replace(
        "Trainer(net, 0.01).fit(4)", "trainer = Trainer(net, 0.01)\ntrainer.fit(4)\nx = x * trainer.rate"
    ),
    "one batch for each step": PLAIN + SHORT.format("        break\n"),
    "one batch for each call": PLAIN + "def step():\n" + SHORT.format("").partition("\n")[2]
    + "        return loss.item()\nfor number in range(4):\n    step()\n",
    "one batch to look at": PLAIN + FIT + RATE + "for x, y in other:\n    print(net(x).shape)\n    break\n" + GO.format(
        "loader", "other"
    ),
    "scored on both": PLAIN + FIT + RATE + "for epoch in range(3):\n    train(loader)\n"
    "    print(score(loader), score(other))\n",
    "a third loader that is not needed": PLAIN + "spare = DataLoader(held_out)\n" + FIT + RATE
    + GO.format("loader", "other"),
    "the held-out samples as one tensor": PLAIN + FIT + "for epoch in range(3):\n    print(train(loader))\n"
    "with torch.no_grad():\n    print(F.cross_entropy(net(held_out[:][0]), held_out[:][1]))\n",
    "a variable that is set in the groups": DATA.format("rate = 0.1\n", "rate") + FIT + RATE
    + GO.format("loader", "other") + "    rate *= 0.9\n    optimizer.param_groups[0]['lr'] = rate\n",
    "a variable of the next optimizer": DATA.format("rate = 0.1\n", "rate") + FIT + RATE
    + GO.format("loader", "other") + "    rate *= 0.9\n    optimizer = torch.optim.SGD(net.parameters(), lr=rate)\n",
    "an attribute that is given on": PLAIN + OWN_CLASS.format(
        "\n                self.optimizer.param_groups[0]['lr'] = self.rate"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_the_line_of_the_loop_is_told(name: str, tmp_path: Path) -> None:
    cause, script = FAULTS[name]
    assert_first_alarm(script, cause, tmp_path)


@pytest.mark.parametrize("name", HEALTHY)
def test_loops_that_are_meant_are_no_alarms(name: str, tmp_path: Path) -> None:
    assert alarms(HEALTHY[name], tmp_path) == []


MADE_ANEW = """
class Trainer:
    def __init__(self, net):
        self.net, self.rate = net, 0.1
        self.restart()
    def restart(self):
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=self.rate)
    def fit(self):
        for stage in range(3):
            for x, y in loader:
                self.optimizer.zero_grad()
                F.cross_entropy(self.net(x), y).backward()
                self.optimizer.step()
            self.rate *= 0.5
            self.restart()
Trainer(net).fit()
"""


def test_an_optimizer_that_is_made_anew_gets_the_new_rate(tmp_path: Path) -> None:
    assert alarms(DATA.format("", 0.1) + MADE_ANEW, tmp_path) == []
