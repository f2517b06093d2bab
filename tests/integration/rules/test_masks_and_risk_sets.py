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

COX = HEAD + "x, t, e = torch.randn(48, 5), torch.rand(48) * 9, (torch.rand(48) < 0.6).float()\n"
COX += "order = t.argsort(descending=True)\nx, t, e = x[order], t[order], e[order]\n"
COX += "net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))\n"
COX += "optimizer = torch.optim.Adam(net.parameters())\n"
LOADED = COX + (
    "def cox(risk, event):\n    return -((risk - risk.logcumsumexp(0)) * event).sum() / event.sum()  # HERE\n"
    "def longest_first(rows):\n    rows = sorted(rows, key=lambda row: -row[1].item())\n"
    "    return torch.utils.data.default_collate(rows)\n"
    "data = torch.utils.data.TensorDataset(x, t, e)\n"
    "loader = torch.utils.data.DataLoader(data, batch_size=16{})\n"
    "for epoch in range(2):\n    for a, s, c in loader:\n        {}\n        loss = cox(r, c)\n"
    + TRAIN.replace("    ", "        ")
)
RANKED = COX + "for step in range(3):\n    i = {}\n    r, c = net(x[i]), e[i, None]\n    loss = {}" + TRAIN
RETRIEVED = (
    HEAD + "encode, table = nn.Linear(4, 6), nn.Parameter(torch.randn(30, 6))\nfeatures = torch.randn(30, 4)\n"
    "optimizer = torch.optim.Adam([*encode.parameters(), table])\nother = torch.arange(30)[:20]\n"
    "for step in range(3):\n    x, pos = torch.randn(16, 4), torch.randint(0, 30, (16,))\n"
    "    {}\n    labels = torch.arange(len(scores))\n    loss = {}" + TRAIN
)
ASKED = "F.cross_entropy(scores / 0.1, labels)"

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
    "a loader that shuffles": ("risk_set_not_sorted", LOADED.format(", shuffle=True", "r = net(a).squeeze(1)")),
    "a part of a permutation, and a sum of exponentials": (
        "risk_set_not_sorted",
        RANKED.format("torch.randperm(48)[:20]", "-(r - r.exp().cumsum(0).log())[c > 0].mean()  # HERE"),
    ),
    "parts of a permutation, turned around": (
        "risk_set_not_sorted",
        RANKED.format(
            "torch.randperm(48).split(16)[step]", "(c * (r.flip(0).logcumsumexp(0).flip(0) - r)).mean()  # HERE"
        ),
    ),
    "rows of a table at unique ids": (
        "labels_of_unique",
        RETRIEVED.format(
            "u = pos.unique()  # HERE\n    scores = encode(x) @ table[torch.cat([u, other])].T",
            "F.nll_loss(scores.log_softmax(1), labels)",
        ),
    ),
    "features of unique ids": (
        "labels_of_unique",
        RETRIEVED.format(
            "u, again = torch.unique(pos, return_counts=True)  # HERE\n"
            "    scores = F.linear(encode(x), encode(features[torch.cat((u, other))]) + table.mean())", ASKED,
        ),
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
    "labels of the places of unique ids": RETRIEVED.format(
        "u, places = pos.unique(return_inverse=True)\n    scores = encode(x) @ table[torch.cat([u, other])].T",
        "F.cross_entropy(scores, places)",
    ),
    "unique ids on both sides": RETRIEVED.format(
        "u = pos.unique()\n    scores = encode(features[u]) @ table[u].T", ASKED
    ),
    "rows that are put back where they were": RETRIEVED.format(
        "u, places = pos.unique(return_inverse=True)\n    scores = encode(x) @ table[u][places].T", ASKED
    ),
    "a loader that keeps the order": LOADED.format("", "r = net(a).squeeze(1)"),
    "a loader that sorts each batch": LOADED.format(
        ", shuffle=True, collate_fn=longest_first", "r = net(a).squeeze(1)"
    ),
    "scores of a loader that are sorted": LOADED.format(
        ", shuffle=True", "s, j = s.sort(descending=True); r, c = net(a).squeeze(1)[j], c[j]"
    ),
    "numbers that are sorted, of sorted samples": RANKED.format(
        "torch.randperm(48)[:20].sort().values", "-((r - r.logcumsumexp(0)) * c).mean()"
    ),
    "scores that are drawn and ranked, without events": RANKED.format(
        "torch.randperm(48)[:20]", "(r.flip(0).logcumsumexp(0).flip(0) - r).mean()"
    ),
    "sorted with an array": RANKED.format(
        "torch.randperm(48)[:20]; i = i[i.numpy().argsort()]", "-((r - r.logcumsumexp(0)) * c).mean()"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_what_only_looks_like_them_raises_no_alarm(name: str, tmp_path: Path) -> None:
    assert [f"{each.cause}: {each.message}" for each in alarms(HEALTHY[name], tmp_path)] == []
