"""Rows that were taken in an order, and how what was computed from them comes back into that of the samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

NET = (
    HEAD + "net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4))\n"
    "optimizer = torch.optim.Adam(net.parameters(), lr=0.01)\n"
    "X, T = torch.randn(40, 5), torch.rand(40) * 9\nY = X[:, :4].argmax(1)\n"
    "for rows in torch.randperm(40).split(10):\n    x, t, y = X[rows], T[rows], Y[rows]\n"
)
LENGTHS = (
    NET.replace("optimizer =", "reader = nn.GRU(1, 5, batch_first=True)\noptimizer =").replace(
        "net.parameters()", "[*net.parameters(), *reader.parameters()]"
    )
    + "    sizes, order = (t / 2 + 1).long().sort(descending=True)\n"
    "    packed = nn.utils.rnn.pack_padded_sequence(x[order].unsqueeze(-1), sizes, True)\n"
    "    out, state = reader(packed)\n"
)
PADDED = (
    LENGTHS.split("X, T")[0] + "for step in range(4):\n"
    "    series = [torch.randn(5 + 3 * k % 7) for k in range(10)]\n"
    "    y = torch.stack([(each.mean() > 0).long() for each in series])\n"
    "    lengths = torch.tensor([len(each) for each in series])\n"
    "    order = lengths.argsort(descending=True)\n"
    "    x = nn.utils.rnn.pad_sequence(series, batch_first=True)[order, :, None]\n"
    "    packed = nn.utils.rnn.pack_padded_sequence(x, lengths[order], True)\n"
    "    state = reader(packed)[1].permute(1, 0, 2).flatten(1)\n"
)
PATCHES = (
    NET.replace("optimizer =", "hidden = nn.Parameter(torch.randn(1, 1, 4))\noptimizer =").replace(
        "net.parameters()", "[*net.parameters(), hidden]"
    )
    + "    p = torch.randn(6, 8, 5)\n    ids = torch.rand(6, 8).argsort(dim=1)\n"
    "    seen = net(p.gather(1, ids[:, :3].unsqueeze(-1).expand(-1, -1, 5)))\n"
    "    full = torch.cat([seen, hidden.expand(6, 5, 4)], dim=1)\n"
)
SORTED = NET + "    order = t.argsort()\n    done = net(x[order])\n"
SHUFFLED = NET + "    shuffle = torch.randperm(10)\n"

FAULTS = {
    "labels": SORTED + "    back = done[order]  # HERE\n    loss = F.cross_entropy(back, y)" + TRAIN,
    "experts in slabs, and a residual connection": NET
    + "    order = t.round().sort(stable=True)[1]\n    parts = x.index_select(0, order).split([4, 6])\n"
    "    done = torch.cat([net(part) for part in parts]).index_select(0, order)  # HERE\n"
    "    loss = F.cross_entropy(x[:, :4] + done, y)" + TRAIN,
    "an index for every column, in a function": NET
    + "    def take(values, order):\n"
    "        return values.gather(0, order[:, None].expand(-1, values.shape[1]))  # HERE\n"
    "    order = t.argsort(descending=True)\n    out = take(net(take(x, order)), order)\n"
    "    loss = (out - x[:, :4]).square().mean()" + TRAIN,
    "a shuffled batch without gradients": SHUFFLED
    + "    with torch.no_grad():\n        keys = net(x[shuffle])\n        keys = keys[shuffle]  # HERE\n"
    "    loss = F.cross_entropy(net(x), y) - (net(x) * keys).sum(1).mean()" + TRAIN,
    "the last states of sequences that were sorted by length": LENGTHS
    + "    loss = F.cross_entropy(net(state[-1][order]), y)  # HERE" + TRAIN,
    "sequences that were padded, and labels that were stacked": PADDED
    + "    loss = F.cross_entropy(net(state[order]), y)  # HERE" + TRAIN,
    "patches of which some are hidden": PATCHES
    + "    full = full.gather(1, ids[..., None].repeat(1, 1, 4))  # HERE\n"
    "    loss = (full - p[..., :4]).square().mean()" + TRAIN,
    "slices that are written": NET + "    order = t.argsort()\n    s, done = x[order], torch.zeros(10, 4)\n"
    "    done[:5] = net(s[:5])\n    done[5:] = net(s[5:]).tanh()\n"
    "    loss = F.cross_entropy(done[order], y)  # HERE" + TRAIN,
    "cumulative sums": NET + "    order = t.argsort().flip(0)\n    risk = net(x)[:, 0]\n"
    "    at_risk = risk[order].logcumsumexp(0)[order]  # HERE\n    loss = (at_risk - risk).mean()" + TRAIN,
}  # fmt: skip

HEALTHY = {
    "the inverse": SORTED + "    loss = F.cross_entropy(done[order.argsort()], y)" + TRAIN,
    "an inverse that is written": SORTED
    + "    back = torch.empty_like(order)\n    back[order] = torch.arange(10)\n"
    "    loss = F.cross_entropy(done[back], y)" + TRAIN,
    "results that are written": SORTED
    + "    out = torch.empty_like(done)\n    out[order] = done\n    loss = F.cross_entropy(out, y)" + TRAIN,
    "results that are copied": SORTED
    + "    loss = F.cross_entropy(torch.zeros_like(done).index_copy(0, order, done), y)" + TRAIN,
    "a shuffled batch, put back": SHUFFLED
    + "    keys = net(x[shuffle]).detach()[shuffle.argsort()]\n"
    "    loss = F.cross_entropy(net(x), y) - (net(x) * keys).sum(1).mean()" + TRAIN,
    "two mixtures with the same partner": SHUFFLED
    + "    h = net(0.7 * x + 0.3 * x[shuffle])\n    h = 0.7 * h + 0.3 * h[shuffle]\n"
    "    loss = 0.5 * F.cross_entropy(h, y) + 0.5 * F.cross_entropy(h, y[shuffle])" + TRAIN,
    "a shuffled batch, and other samples of it": SHUFFLED
    + "    x, y = x[shuffle], y[shuffle]\n    z = net(x)\n"
    "    loss = F.cross_entropy(z, y) - 0.01 * (z - z[shuffle]).abs().mean()" + TRAIN,
    "labels that are taken twice as well": SHUFFLED
    + "    loss = F.cross_entropy(net(x[shuffle])[shuffle], y[shuffle][shuffle])" + TRAIN,
    "a mean over all": SORTED + "    loss = (done[order].mean(0) - x[:, :4].mean(0)).square().sum()" + TRAIN,
    "states of sequences, put back": LENGTHS
    + "    loss = F.cross_entropy(net(state[-1].index_select(0, order.sort()[1])), y)" + TRAIN,
    "padded sequences, put back": PADDED + "    loss = F.cross_entropy(net(state[order.argsort()]), y)" + TRAIN,
    "patches that are put back": PATCHES
    + "    full = full.gather(1, ids.argsort(1)[..., None].repeat(1, 1, 4))\n"
    "    loss = (full - p[..., :4]).square().mean()" + TRAIN,
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_rows_that_are_taken_in_one_order_twice_are_told(case: str, tmp_path: Path) -> None:
    assert_first_alarm(FAULTS[case], "order_applied_twice", tmp_path)


@pytest.mark.parametrize("case", HEALTHY)
def test_rows_that_come_back_are_left_alone(case: str, tmp_path: Path) -> None:
    causes = [each.cause for each in alarms(HEALTHY[case], tmp_path)]
    assert not {"order_applied_twice", "sorted_apart"}.intersection(causes)
