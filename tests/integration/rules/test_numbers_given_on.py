"""Numbers that a program reads from a result and only prints, or takes as a size: no term of the loss comes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm, findings

START = (
    HEAD + "import math\nimport numpy as np\nrng = np.random.default_rng(0)\n"
    "model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))\n"
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.05)\n"
)
LOOP = START + "for step in range(5):\n    x = torch.randn(16, 4)\n    out = model(x)\n"
LOSS = "    loss = out.square().mean() + 0.05 * {}.square().mean()" + TRAIN
EACH = "    loss = (out.square().mean(-1) + 0.05 * {}.square().sum(-1)).mean()" + TRAIN

HEALTHY = {
    "pi in the data of the next step": START
    + "for step in range(5):\n    x = torch.rand(16, 4) * math.pi / 3\n    out = model(x.cos())\n"
    + EACH.format("x")
    + "    print(out.mean().item())\n",
    "pi behind a number that is shown": LOOP
    + "    print(out.mean().item())\n    a = torch.rand(16, 4) * math.pi / 3\n"
    + EACH.format("a"),
    "a scale of noise behind a number that is shown": LOOP
    + "    seen = out.mean(-1).max().item()\n    sigma = 0.97 ** step / 3\n    noise = sigma * torch.randn(16, 4)\n"
    + EACH.format("noise")
    + "    print(seen)\n",
    "arrays behind a number that is shown": LOOP
    + "    print(out.mean().item())\n    t = torch.from_numpy(rng.normal(size=(16, 4)).astype('float32'))\n"
    + EACH.format("t"),
    "arrays behind an array that is shown": LOOP
    + "    print(out.detach().numpy().max())\n    t = torch.from_numpy(rng.normal(size=(16, 4)).astype('float32'))\n"
    + EACH.format("t"),
    "a list of whole numbers behind a number that is shown": LOOP
    + "    print(out.mean().item())\n    t = torch.tensor([1, 0, 1, 1], dtype=torch.float32)\n"
    + EACH.format("(x - t)"),
    "a size of linspace()": LOOP
    + "    n = int(out.sigmoid().sum())\n    u = torch.linspace(0, math.pi, n)\n"
    + LOSS.format("u"),
    "a size of full()": LOOP
    + "    n = int(out.sigmoid().sum().item())\n    u = torch.full((n, 4), 1, dtype=torch.float32)\n"
    + LOSS.format("u"),
    "the end of a slice": LOOP + "    n = int(out.sigmoid().sum())\n" + LOSS.format("x[:n]"),
    "a list of rows": LOOP + "    rows = out.squeeze(-1).topk(3).indices.tolist()\n" + LOSS.format("x[rows]"),
    "a method that returns a number to be shown": START
    + "class Trainer:\n    def step(self, x):\n        out = model(x)\n        "
    + EACH.format("x").replace("\n    ", "\n        ").strip()
    + "\n        return out.mean().item()\ntrainer = Trainer()\nfor step in range(5):\n"
    "    x = torch.randn(16, 4) * 0.97 ** step / 3\n    seen = trainer.step(x)\n    print(f'{seen:.3f}')\n",
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_a_number_that_is_shown_or_is_a_size_cuts_off_no_term(name: str, tmp_path: Path) -> None:
    assert [(each.cause, each.message) for each in alarms(HEALTHY[name], tmp_path)] == []


FAULTS = {
    "through math and a name": LOOP
    + "    size = model[0].weight.square().sum().item()  # HERE\n    penalty = math.sqrt(size / 3)\n"
    "    loss = out.square().mean() + 0.1 * penalty" + TRAIN,
    "through a list": LOOP
    + "    kept = []\n    kept.append(model[0].weight.square().sum().item() / 3)  # HERE\n"
    "    loss = out.square().mean() + 0.1 * kept[-1]" + TRAIN,
    "returned by a function": START
    + "def size_of(layer):\n    return layer.weight.square().sum().item() / 7  # HERE\n"
    + LOOP.removeprefix(START)
    + "    penalty = size_of(model[0])\n    loss = out.square().mean() + 0.1 * penalty" + TRAIN,
    "kept on an object": START
    + "class Size:\n    def read(self, layer):\n        self.last = layer.weight.square().sum().item() / 7  # HERE\n"
    "size = Size()\n" + LOOP.removeprefix(START)
    + "    size.read(model[0])\n    loss = out.square().mean() + 0.1 * size.last" + TRAIN,
    "through an array": LOOP
    + "    low = out.detach().numpy()  # HERE\n    other = torch.from_numpy(low ** 2 + 1)\n"
    "    loss = out.square().mean() + 0.1 * other.mean()" + TRAIN,
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_number_that_comes_back_is_told(name: str, tmp_path: Path) -> None:
    assert_first_alarm(FAULTS[name], "term_without_gradient", tmp_path)


def test_a_number_that_is_added_to_a_loss_stops_no_rule(tmp_path: Path) -> None:
    script = LOOP + "    loss = out.square().mean() + 0.1" + TRAIN
    assert [each for each in findings(script, tmp_path) if each.code == "GV000"] == []
