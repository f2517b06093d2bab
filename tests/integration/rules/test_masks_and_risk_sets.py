"""Masks that add up in stored data, risk sets of batches that nothing sorted, and labels of candidates that were."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

STORED = HEAD + "import random\nrandom.seed(0)\ndata, y = torch.randn(24, 9, 4), torch.arange(24) % 3\n"
STORED += "net = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))\n"
STORED += "optimizer = torch.optim.Adam(net.parameters())\n"
BATCHES = "for step in range(9):\n    i = step % 3 * 8\n"
FIT = "    loss = F.cross_entropy(net(x), y[i : i + 8])" + TRAIN

SAMPLES = (
    STORED
    + "class Clips(torch.utils.data.Dataset):\n    def __len__(self):\n        return 24\n"
    + "    def __getitem__(self, i):\n        x = data[i]{}\n        t = random.randrange(8)\n"
    + "        x[t : t + 2].zero_(){}\n        return x, y[i]\n"
    + "loader = torch.utils.data.DataLoader(Clips(), batch_size=8, shuffle=True)\n"
    + "for epoch in range(3):\n    for x, c in loader:\n        loss = F.cross_entropy(net(x), c)\n"
    + TRAIN.replace("    ", "        ")
)
TOKENS = (
    HEAD + "ids = torch.randint(1, 30, (24, 12))\nnet = nn.Sequential(nn.Embedding(30, 8), nn.Linear(8, 30))\n"
    "optimizer = torch.optim.Adam(net.parameters())\n"
    "for epoch in range(3):\n    for x in ids.split(8):\n        {}\n        hidden = torch.rand(x.shape) < 0.2\n"
    "        {}\n        loss = F.cross_entropy(net(x)[hidden], kept[hidden])\n" + TRAIN.replace("    ", "        ")
)
BOARDS = (
    HEAD + "net = nn.Linear(9, 9)\noptimizer = torch.optim.Adam(net.parameters())\nboards = torch.zeros(4, 9)\n"
    "for step in range(20):\n    board = boards[step % 4]\n    board[step * 7 % 9] = 1\n"
    "    loss = net(board).square().mean()" + TRAIN
)

FAULTS = {
    "bands of consecutive rows": (
        "data_changed_again",
        STORED + BATCHES + "    x = data[i : i + 8]\n    for b in range(8):\n        t = random.randrange(7)\n"
        "        x[b, t : t + 2] = 0  # HERE\n" + FIT,
    ),
    "samples of a data set": ("data_changed_again", SAMPLES.format("", "  # HERE")),
    "hidden tokens of parts": (
        "data_changed_again", TOKENS.format("kept = x.clone()", "x.masked_fill_(hidden, 0)  # HERE"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_masks_and_orders_that_went_wrong_are_told(name: str, tmp_path: Path) -> None:
    cause, script = FAULTS[name]
    assert_first_alarm(script, cause, tmp_path)


HEALTHY = {
    "bands of a copy": STORED + BATCHES + "    x = data[i : i + 8].clone()\n    for b in range(8):\n"
    "        t = random.randrange(7)\n        x[b, t : t + 2] = 0\n" + FIT,
    "samples that are copied": SAMPLES.format(".clone()", ""),
    "tokens that are hidden in a new tensor": TOKENS.format("kept = x", "x = x.masked_fill(hidden, 0)"),
    "padding that is zeroed again": STORED + BATCHES + "    x = data[i : i + 8]\n    for b in range(8):\n"
    "        x[b, 3 + (i + b) % 5 :] = 0\n" + FIT,
    "a buffer that is filled anew": STORED + BATCHES + "    data.normal_()\n    x = data[i : i + 8]\n"
    "    t = random.randrange(7)\n    x[:, t : t + 2] = 0\n" + FIT,
    "the boards of a game": BOARDS,
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_what_only_looks_like_them_raises_no_alarm(name: str, tmp_path: Path) -> None:
    assert [f"{each.cause}: {each.message}" for each in alarms(HEALTHY[name], tmp_path)] == []
