"""Values of samples in the order of a sort that meet others in the order of the batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

NET = HEAD + "net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4))\n"
NET += "optimizer = torch.optim.Adam(net.parameters())\n"
STORED = NET + "X, T = torch.randn(40, 5), torch.rand(40) * 9\nE, Y = (T < 6).float(), X[:, :4].argmax(1)\n"
BATCHES = STORED + "for rows in torch.randperm(40).split(10):\n    x, t, e, y = X[rows], T[rows], E[rows], Y[rows]\n"
SLICES = STORED + "for at in range(0, 40, 10):\n    x, t, e = X[at : at + 10], T[at : at + 10], E[at : at + 10]\n"
WHOLE = STORED + "for step in range(4):\n    x, t, e, y = X, T, E, Y\n"
LOADED = (
    STORED + "for x, t, e in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, T, E), 10, shuffle=True):\n"
)
RISK = "    order = torch.argsort(t, descending=True)\n    risk = net(x)[:, 0][order]\n"
LISTS = NET + "X = torch.randn(24, 6, 5)\nG = X.sum(2).round()\n"
LISTS += "for rows in torch.randperm(24).split(6):\n    x, g = X[rows], G[rows]\n    s = net(x)[..., 0]\n"
LONGEST_FIRST = (
    "    order = t.argsort(descending=True)\n"
    "    sizes = (t[order] / 2 + 1).long().clamp(max=5)\n"
    "    packed = nn.utils.rnn.pack_padded_sequence(x[order][..., None], sizes, True)\n"
    "    out = net(reader(packed)[1][0])\n"
)
READER = (
    BATCHES.replace("optimizer =", "reader = nn.GRU(1, 5, batch_first=True)\noptimizer =").replace(
        "net.parameters()", "[*net.parameters(), *reader.parameters()]"
    )
    + LONGEST_FIRST
)

TRACKS = """
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
class Tracks(torch.utils.data.Dataset):
    def __init__(self):
        self.items = [(torch.randn(int(n), 5), torch.randn(2), k % 4) for k, n in enumerate(torch.randint(3, 9, (40,)))]
    def __len__(self):
        return len(self.items)
    def __getitem__(self, index):
        return self.items[index]
def collate(items):
    x, beside, y = zip(*items)
    lengths = torch.tensor([len(each) for each in x])
    return pad_sequence(x, batch_first=True), lengths, torch.stack(beside), torch.tensor(y)
def packed(x, lengths):
    sizes, order = lengths.sort(descending=True)
    return pack_padded_sequence(x[order], sizes, batch_first=True)  # HERE
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(5, 6, batch_first=True, bidirectional=True)
        self.head = nn.Sequential(nn.Linear(14, 8), nn.ReLU(), nn.Linear(8, 4))
    def forward(self, x, lengths, beside):
        _, state = self.rnn(packed(x, lengths))
        return self.head(torch.cat([state[0], state[1], beside], dim=-1))
model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for x, lengths, beside, y in torch.utils.data.DataLoader(Tracks(), 10, shuffle=True, collate_fn=collate):
    scores = model(x, lengths, beside)
    loss = F.cross_entropy(scores, y)
"""
READ = HEAD + TRACKS + TRAIN
LENGTHS = "torch.tensor([len(each) for each in x])"
LAST_ONLY = READ.replace("state[1], beside]", "state[1]]").replace("nn.Linear(14, 8)", "nn.Linear(12, 8)")

LOVASZ = LISTS.replace(
    "for rows",
    "def steps(labels):\n    hidden = 1 - (labels.sum() - labels.cumsum(0)) / (labels.sum() + (1 - labels).cumsum(0))\n"
    "    return torch.cat([hidden[:1], hidden.diff()])\n\n\nfor rows",
)
LOVASZ += (
    "    parts = []\n    for each, m in zip(s, (g > 0).float()):\n"
    "        errors, order = (1 - each * (2 * m - 1)).sort(descending=True)\n"
)

FAULTS = {
    "features beside last states of packed sequences": READ,
    "labels of last states of packed sequences that another function reads": LAST_ONLY,
    "the same, stacked by the loader": READ.replace(LENGTHS, "torch.stack([torch.tensor(len(each)) for each in x])"),
    "events of a Cox likelihood, multiplied": BATCHES + RISK
    + "    loss = ((torch.logcumsumexp(risk, 0) - risk) * e).sum() / e.sum().clamp(min=1)  # HERE" + TRAIN,
    "events of a Cox likelihood, as a mask": SLICES + RISK
    + "    terms = torch.logcumsumexp(risk, 0) - risk\n    loss = terms[e.bool()].mean()  # HERE" + TRAIN,
    "the same of all samples, in a function": WHOLE.replace(
        "for step", "def put(values, by):\n    return values.index_select(0, by.sort(0, True)[1])\n\n\nfor step"
    )
    + "    risk = put(net(x)[:, :1], t)\n"
    "    loss = -torch.sum((risk.squeeze(1) - risk.exp().cumsum(0).log().squeeze(1)).mul(e))  # HERE" + TRAIN,
    "batches of a loader": LOADED + RISK
    + "    loss = -(e * (risk - torch.logcumsumexp(risk, 0))).mean()  # HERE" + TRAIN,
    "sums over the risk set that are not put back": BATCHES
    + "    risk = net(x)[:, 0]\n    at_risk = risk[t.argsort(descending=True)].logcumsumexp(0)\n"
    "    loss = -((risk - at_risk) * e).mean()  # HERE" + TRAIN,
    "labels of sequences that were sorted by length": READER + "    loss = F.cross_entropy(out, y)  # HERE" + TRAIN,
    "gains of ranked lists": LISTS
    + "    order = g.argsort(1, descending=True)\n    p = s.gather(1, order)\n"
    "    loss = -((p - p.logcumsumexp(1)) * g).mean()  # HERE" + TRAIN,
    "a flipped order, gathered, and a choice": BATCHES
    + "    order = t.argsort().flip(0)\n    risk = torch.gather(net(x)[:, 0], 0, order)\n"
    "    loss = -torch.where(e > 0, risk - risk.logcumsumexp(0), torch.zeros(())).mean()  # HERE" + TRAIN,
    "all of topk": BATCHES
    + "    _, order = t.topk(10)\n    risk = net(x)[order, 0]\n"
    "    loss = -((risk - risk.logcumsumexp(0)) * e).mean()  # HERE" + TRAIN,
    "sorted errors and labels of a Lovasz hinge": BATCHES
    + "    errors, order = (1 - net(x)[:, 0] * (2 * e - 1)).sort(0, descending=True)\n"
    "    hidden = 1 - (e.sum() - e.cumsum(0)) / (e.sum() + (1 - e).cumsum(0))\n"
    "    loss = torch.dot(F.relu(errors), hidden)  # HERE" + TRAIN,
    "weights that a function computes of labels, in steps": LOVASZ
    + "        weights = steps(m)  # HERE\n        parts.append(errors.relu() @ weights)\n"
    "    loss = sum(parts)" + TRAIN,
    "the same, written into themselves": LOVASZ.replace(
        "return torch.cat([hidden[:1], hidden.diff()])", "hidden[1:] = hidden[1:] - hidden[:-1]\n    return hidden"
    )
    + "        weights = steps(m)  # HERE\n        parts.append(torch.einsum('n,n->', errors.relu(), weights))\n"
    "    loss = sum(parts)" + TRAIN,
    "labels of rows of a table that is gone through": LOVASZ
    + "        parts.append((errors.relu() * m).mean())  # HERE\n    loss = sum(parts)" + TRAIN,
}  # fmt: skip

HEALTHY = {
    "last states of sequences that torch sorts": READ.replace("x[order], sizes", "x, lengths").replace(
        "batch_first=True)  # HERE", "batch_first=True, enforce_sorted=False)"
    ),
    "last states that are put back": READ.replace(
        "_, state = self.rnn(packed(x, lengths))",
        "state = self.rnn(packed(x, lengths))[1][:, lengths.argsort(descending=True).argsort()]",
    ),
    "features and labels in the order of the lengths": READ.replace("beside)\n    loss", "beside[order])\n    loss")
    .replace("    scores", "    order = lengths.argsort(descending=True)\n    scores").replace("y)\n", "y[order])\n"),
    "sequences that the loader has sorted": READ.replace(
        "    x, beside, y = zip", "    items.sort(key=lambda each: len(each[0]), reverse=True)\n    x, beside, y = zip"
    ),
    "sequences that the loader has sorted, and lengths of a mask": READ.replace(
        "    x, beside, y = zip", "    items.sort(key=lambda each: -len(each[0]))\n    x, beside, y = zip"
    ).replace(LENGTHS, "(pad_sequence(x, batch_first=True) != 0).any(2).sum(1)"),
    "a constant and noise beside last states": LAST_ONLY.replace(
        "state[1]]", "state[1], torch.randn(len(x), 1), torch.ones(len(x), 1)]"
    ).replace("nn.Linear(12, 8)", "nn.Linear(14, 8)").replace("y)\n", "y[lengths.argsort(descending=True)])\n"),
    "events in the same order": BATCHES + RISK
    + "    e = e[order]\n    loss = -((risk - torch.logcumsumexp(risk, 0)) * e).sum() / e.sum().clamp(min=1)" + TRAIN,
    "sums that are put back": BATCHES
    + "    risk = net(x)[:, 0]\n    order = t.argsort(descending=True)\n    back = order.argsort()\n"
    "    loss = -((risk - risk[order].logcumsumexp(0)[back]) * e).mean()" + TRAIN,
    "sums that are written back": BATCHES
    + "    risk = net(x)[:, 0]\n    order = t.argsort(descending=True)\n    sums = risk[order].logcumsumexp(0)\n"
    "    at_risk = torch.zeros_like(sums).scatter(0, order, sums)\n"
    "    loss = -((risk - at_risk) * e).mean()" + TRAIN,
    "weights by rank": BATCHES
    + "    losses = F.cross_entropy(net(x), y, reduction='none').sort().values\n"
    "    loss = (losses * torch.linspace(1, 0, len(losses))).mean()" + TRAIN,
    "stored weights by rank": BATCHES.replace("for rows", "W = torch.rand(10).sort()[0]\nfor rows")
    + "    losses = F.cross_entropy(net(x), y, reduction='none').sort().values\n    loss = (losses * W).mean()" + TRAIN,
    "both sides sorted": BATCHES + "    loss = (net(x)[:, 0].sort()[0] - t.sort()[0]).square().mean()" + TRAIN,
    "sorted results and quantiles": WHOLE.replace("for step", "Q = torch.randn(40)\nfor step")
    + "    loss = (net(x)[:, 0].sort()[0] - Q).square().mean()" + TRAIN,
    "sorted projections": BATCHES
    + "    to = torch.randn(4, 3)\n    p, q = (net(x) @ to).sort(0)[0], (torch.randn(10, 4) @ to).sort(0)[0]\n"
    "    loss = (p - q).square().mean()" + TRAIN,
    "the worst share": BATCHES
    + "    losses = F.cross_entropy(net(x), y, reduction='none')\n    share = torch.zeros(10)\n    share[:3] = 1 / 3\n"
    "    loss = (losses.sort(descending=True).values * share).sum()" + TRAIN,
    "the hardest samples": BATCHES
    + "    losses = F.cross_entropy(net(x), y, reduction='none')\n    order = losses.sort(descending=True)[1][:5]\n"
    "    loss = (losses[order] * e[order]).mean() + (losses * e).mean()" + TRAIN,
    "neighbours in an order": BATCHES
    + "    order = t.argsort()\n    h = net(x)\n    mixed = 0.7 * h + 0.3 * h[order]\n"
    "    loss = 0.7 * F.cross_entropy(mixed, y) + 0.3 * F.cross_entropy(mixed, y[order])" + TRAIN,
    "inputs mixed with their neighbours": BATCHES
    + "    order = t.argsort()\n    out = net(0.7 * x + 0.3 * x[order])\n"
    "    loss = 0.7 * F.cross_entropy(out, y) + 0.3 * F.cross_entropy(out, y[order])" + TRAIN,
    "sequences sorted by length, and their labels": READER + "    loss = F.cross_entropy(out, y[order])" + TRAIN,
    "sequences that torch sorts": READER.replace("x[order]", "x").replace(
        "(t[order] / 2", "(t / 2"
    ).replace("sizes, True)", "sizes, True, False)")
    + "    loss = F.cross_entropy(out, y)" + TRAIN,
    "gains of ranked lists, sorted": LISTS
    + "    gains, order = g.sort(1, descending=True)\n    p = s.gather(1, order)\n"
    "    loss = -((p - p.logcumsumexp(1)) * gains / torch.log2(torch.arange(6) + 2.0)).mean()" + TRAIN,
    "labels of a Lovasz hinge in the same order": BATCHES
    + "    errors, order = (1 - net(x)[:, 0] * (2 * e - 1)).sort(0, descending=True)\n    e = e[order]\n"
    "    hidden = 1 - (e.sum() - e.cumsum(0)) / (e.sum() + (1 - e).cumsum(0))\n"
    "    loss = torch.dot(F.relu(errors), hidden)" + TRAIN,
    "weights that a function computes of sorted labels": LOVASZ
    + "        weights = steps(m[order])\n        parts.append(errors.relu() @ weights)\n    loss = sum(parts)" + TRAIN,
    "an order that is only shown": LOVASZ
    + "        print(errors[0])\n        parts.append(((1 - each * m).relu() * steps(m)).sum())\n"
    "    loss = sum(parts)" + TRAIN,
    "all pairs of sorted and others": LOVASZ
    + "        parts.append(torch.einsum('n,m->nm', errors.relu(), m).mean())\n    loss = sum(parts)" + TRAIN,
    "all pairs": BATCHES + "    risk = net(x)[:, 0][t.argsort()]\n"
    "    loss = F.relu(1 + risk[:, None] - net(x)[:, 0][None]).mul(e[None]).mean()" + TRAIN,
    "a mean of the sorted beside each": BATCHES + "    losses = (net(x)[:, 0] - t).abs()\n"
    "    limit = losses.sort()[0][:7].mean()\n    loss = (F.relu(losses - limit) * e).mean() + limit" + TRAIN,
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_values_that_are_not_in_the_order_are_told(case: str, tmp_path: Path) -> None:
    assert_first_alarm(FAULTS[case], "sorted_apart", tmp_path)


@pytest.mark.parametrize("case", HEALTHY)
def test_values_in_one_order_are_left_alone(case: str, tmp_path: Path) -> None:
    assert "sorted_apart" not in [each.cause for each in alarms(HEALTHY[case], tmp_path)]
