"""Copies of samples that are grouped in another order, risk sets of the wrong side, and focal factors of an average."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

NET = HEAD + "net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4))\n"
NET += "optimizer = torch.optim.Adam(net.parameters())\n"

VIEWS = NET + "for step in range(3):\n    x = torch.randn(12, 5)\n"
VIEWS += "    a, b = (x + 0.1 * torch.randn_like(x) for _ in range(2))\n"
LOADED = (
    NET
    + """
class Views(torch.utils.data.Dataset):
    def __len__(self):
        return 48
    def view(self, sample):
        return sample + 0.1 * torch.randn_like(sample)
    def __getitem__(self, i):
        sample = torch.full((5,), i / 48)
        return torch.stack([self.view(sample), self.view(sample)])
for views in torch.utils.data.DataLoader(Views(), 12):
"""
)
CONTRAST = "    s = (z @ z.T / 0.2).masked_fill(torch.eye(24).bool(), -1e9)\n    loss = F.cross_entropy(s, {})" + TRAIN
CHOSEN = (
    "    s = (torch.einsum('id,jd->ij', z, z) / 0.2).masked_fill(torch.eye(24).bool(), float('-inf'))\n"
    "    partner = {}\n    loss = (s.logsumexp(1) - {}).mean()" + TRAIN
)
AWAY, NEAR = "torch.arange(24).roll(12)", "torch.arange(24) ^ 1"
CONTRAST_OF_VIEWS = (
    "    z = torch.cat(z.unbind(1))\n    s, other = z @ z.T / 0.2, 1 - torch.eye(24)\n"
    "    mask = torch.eye(12).repeat(2, 2) * other\n    s = s - (s.exp() * other).sum(1, keepdim=True).log()\n"
    "    loss = -((mask * s).sum(1) / mask.sum(1)).mean()" + TRAIN
)
PAIRS = "    loss = 1 - F.cosine_similarity({}, {}).mean() + z.std(0).sub(1).square().mean()" + TRAIN
GROUPS = (
    NET + "for step in range(3):\n    x = torch.randn(6, 5)\n    many = {}\n"
    "    out = net(many)\n    gain = torch.randn(len(out)) - (out.detach() - many[:, :4]).abs().sum(1)\n"
    "    grouped = gain.{}\n"
    "    better = ((grouped - grouped.mean({axis}, keepdim=True)) / grouped.std({axis}, keepdim=True)).{}\n"
    "    loss = -(out.log_softmax(1)[:, 0] * better).mean()" + TRAIN
)

TIMES = (
    NET
    + "for step in range(3):\n    x, t, e = torch.randn(20, 5), torch.rand(20) * 9, (torch.rand(20) < 0.6).float()\n"
)
FOCAL = NET + "for step in range(3):\n    x = torch.randn(16, 5)\n    y = x[:, :4].argmax(1)\n"


def grouped(laid_out: str, view: str, back: str = "flatten()", axis: int = 1) -> str:
    """Advantages within groups of copies of the same input."""
    return GROUPS.format(laid_out, view, back, axis=axis)


VOTES = (
    NET + "for step in range(3):\n    x = torch.randn(6, 5)\n    rows = {}\n    many = {}\n"
    "    p = net(many).unflatten(0, {}).mean(1)\n    loss = F.cross_entropy(p, torch.randint(0, 4, (6,)))" + TRAIN
)
ONE_BY_ONE = "torch.stack([row.roll(1) for row in x[rows]])"

FAULTS = {
    "numbers of samples in tiles, and a view sample by sample": (
        "rows_grouped_otherwise",
        VOTES.format("torch.arange(6).tile(3)  # HERE", "x.index_select(0, rows)", (6, 3)),
    ),
    "numbers of samples modulo their count, and each row changed alone": (
        "rows_grouped_otherwise", VOTES.format("torch.arange(18) % 6  # HERE", ONE_BY_ONE, (6, 3)),
    ),
    "expanded in front and grouped at the end": (
        "rows_grouped_otherwise",
        grouped("x[None].expand(3, 6, 5).reshape(18, 5)  # HERE", "view(-1, 3)"),
    ),
    "a list of copies, grouped at the end": (
        "rows_grouped_otherwise", grouped("torch.cat([x] * 3)  # HERE", "reshape(6, 3)"),
    ),
    "repeated sample by sample and grouped in front": (
        "rows_grouped_otherwise",
        grouped("torch.repeat_interleave(x, 3, dim=0)  # HERE", "view(3, 6)", axis=0),
    ),
    "joined copies that are split into parts of neighbours": (
        "rows_grouped_otherwise", NET + "for step in range(3):\n    x = torch.randn(6, 5)\n"
        "    many = torch.cat([x + 0.1 * torch.randn_like(x) for _ in range(3)])  # HERE\n"
        "    p = torch.stack(net(many).log_softmax(1).split(3))\n"
        "    loss = F.cross_entropy(p.logsumexp(1), torch.randint(0, 4, (6,)))" + TRAIN,
    ),
    "repeated, and each part of neighbours averaged alone": (
        "rows_grouped_otherwise", NET + "for step in range(3):\n    x = torch.randn(6, 5)\n"
        "    out = net(x.repeat(3, 1))  # HERE\n"
        "    p = torch.stack([out[3 * i : 3 * i + 3].mean(0) for i in range(6)])\n"
        "    loss = F.cross_entropy(p, torch.randint(0, 4, (6,)))" + TRAIN,
    ),
    "repeated sample by sample, and a stack of chunks": (
        "rows_grouped_otherwise", NET + "for step in range(3):\n    x = torch.randn(6, 5)\n"
        "    out = net(x.repeat_interleave(3, 0))  # HERE\n"
        "    p = torch.einsum('vnc->nc', torch.stack(out.chunk(3))) / 3\n"
        "    loss = F.cross_entropy(p, torch.randint(0, 4, (6,)))" + TRAIN,
    ),
    "joined views and labels of neighbours": (
        "rows_grouped_otherwise",
        VIEWS + "    z = F.normalize(net(torch.cat([a, b])), dim=1)  # HERE\n"
        + CONTRAST.format("torch.arange(24) ^ 1"),
    ),
    "views side by side and labels half a batch away": (
        "rows_grouped_otherwise",
        VIEWS + "    both = torch.stack([a, b], 1).reshape(24, 5)  # HERE\n    z = F.normalize(net(both), dim=1)\n"
        + CONTRAST.format("(torch.arange(24) + 12) % 24"),
    ),
    "views of a data set, and labels half a batch away": (
        "rows_grouped_otherwise",
        LOADED + "    x = views.flatten(0, 1)  # HERE\n    z = F.normalize(net(x), dim=1)\n"
        + CONTRAST.format("torch.arange(24).roll(12)"),
    ),
    "views side by side and an index half a batch away": (
        "rows_grouped_otherwise",
        VIEWS + "    both = torch.stack([a, b], 1).flatten(0, 1)  # HERE\n    z = F.normalize(net(both), dim=1)\n"
        + CHOSEN.format(AWAY, "s.take_along_dim(partner[:, None], dim=1)[:, 0]"),
    ),
    "joined views and positives of neighbours that are gathered": (
        "rows_grouped_otherwise",
        VIEWS + "    z = F.normalize(net(torch.cat([a, b])), dim=1)  # HERE\n"
        + CHOSEN.format(NEAR, "torch.gather(s, 1, partner.unsqueeze(1)).squeeze(1)"),
    ),
    "joined views and positives of neighbours by rows and columns": (
        "rows_grouped_otherwise",
        VIEWS + "    z = F.normalize(net(torch.cat([a, b])), dim=1)  # HERE\n"
        + CHOSEN.format(NEAR, "s[torch.arange(24), partner]"),
    ),
    "joined views and pairs of neighbours": (
        "rows_grouped_otherwise",
        VIEWS + "    z = net(torch.cat((a, b), dim=0))  # HERE\n" + PAIRS.format("z[::2]", "z[1::2]"),
    ),
    "views side by side and paired halves": (
        "rows_grouped_otherwise",
        VIEWS + "    z = net(torch.stack((a, b), dim=1).flatten(0, 1))  # HERE\n    p, q = z.chunk(2)\n"
        + PAIRS.format("p", "q"),
    ),
    "joined views, a view of neighbours, and a mask of joined views": (
        "rows_grouped_otherwise",
        VIEWS + "    z = F.normalize(net(torch.cat([a, b])), dim=1)\n    z = z.view(12, 2, -1)  # HERE\n"
        + CONTRAST_OF_VIEWS,
    ),
    "inputs of one order and targets of the other": (
        "rows_grouped_otherwise",
        NET + "for step in range(3):\n    x = torch.randn(6, 5)\n    y = x[:, :4].argmax(1)\n"
        "    many = x.repeat(3, 1) + 0.1 * torch.randn(18, 5)\n"
        "    loss = F.cross_entropy(net(many), y.repeat_interleave(3))  # HERE" + TRAIN,
    ),
    "samples of a distribution in front, and grouped at the end": (
        "rows_grouped_otherwise",
        NET + "out = nn.Linear(2, 5)\noptimizer.add_param_group({'params': out.parameters()})\n"
        "for step in range(3):\n    x = torch.randn(6, 5)\n    mu, s = net(x).chunk(2, 1)\n"
        "    z = torch.distributions.Normal(mu, s.exp()).rsample((3,))\n"
        "    back = out(z.reshape(18, 2)).sum(1)\n    loss = -back.view(6, 3).logsumexp(1).mean()  # HERE" + TRAIN,
    ),
    "a cumulative sum in ascending order of indices from sort": (
        "risk_set_reversed",
        TIMES + "    t, i = torch.sort(t)  # HERE\n    r = net(x)[:, 0].index_select(0, i)\n"
        "    total = r.exp().cumsum(0).log()\n    loss = -(r - total)[e[i] == 1].mean()" + TRAIN,
    ),
    "an ascending sort of inputs, and a column of scores": (
        "risk_set_reversed",
        TIMES + "    i = t.argsort()  # HERE\n    x, e = x[i], e[i]\n    r = net(x)[:, :1]\n"
        "    share = r.exp() / torch.cumsum(torch.exp(r), dim=0)\n"
        "    loss = -(share.log().squeeze(1) * e).sum() / e.sum()" + TRAIN,
    ),
    "a descending sort that is flipped": (
        "risk_set_reversed",
        TIMES + "    i = torch.argsort(-t)  # HERE\n    r, e = net(x)[:, 0][i].flip(0), e[i].flip(0)\n"
        "    loss = -((r - r.logcumsumexp(0)) * e).mean()" + TRAIN,
    ),
    "a lower triangle of ones, in ascending order": (
        "risk_set_reversed",
        TIMES + "    i = t.argsort()  # HERE\n    r, e = net(x)[:, 0][i], e[i].float()\n"
        "    total = torch.mv(torch.ones(len(r), len(r)).tril(), r.exp()).log()\n"
        "    loss = torch.dot(e, total - r) / e.sum()" + TRAIN,
    ),
    "an upper triangle of ones, in descending order": (
        "risk_set_reversed",
        TIMES + "    i = t.argsort(descending=True)  # HERE\n    r, e = net(x)[:, 0][i], e[i]\n"
        "    total = torch.triu(torch.ones(len(r), len(r))) @ torch.exp(r)\n"
        "    loss = -((r - total.log()) * e).mean()" + TRAIN,
    ),
    "sums in ascending order that are looked up for each time": (
        "risk_set_reversed",
        TIMES + "    s, i = t.sort()\n    r = net(x)[:, 0]\n    total = r.exp()[i].cumsum(0)  # HERE\n"
        "    k = torch.searchsorted(s, t, right=True) - 1\n    loss = ((total[k].log() - r) * e).mean()" + TRAIN,
    ),
    "sums in ascending order that are ranked back": (
        "risk_set_reversed",
        TIMES + "    i = t.argsort()  # HERE\n    r = net(x)[:, 0]\n    total = r[i].logcumsumexp(0)\n"
        "    loss = -(r - total.gather(0, i.argsort()))[e > 0].mean()" + TRAIN,
    ),
    "sums in ascending order that are scattered back": (
        "risk_set_reversed",
        TIMES + "    i = t.argsort()  # HERE\n    r = net(x)[:, 0]\n    total = torch.cumsum(r[i].exp(), 0)\n"
        "    total = torch.zeros(20).scatter(0, i, total)\n    loss = -((r - total.log()) * e).mean()" + TRAIN,
    ),
    "sums in ascending order that are written back": (
        "risk_set_reversed",
        TIMES + "    i = t.argsort()  # HERE\n    r = net(x)[:, 0]\n    total = torch.zeros(20)\n"
        "    total[i] = r[i].exp().cumsum(0)\n    loss = -((r - total.log()) * e).mean()" + TRAIN,
    ),
    "a focal factor of a module's average": (
        "focal_factor_of_the_mean",
        FOCAL + "    ce = nn.CrossEntropyLoss()(net(x), y)  # HERE\n    p = (-ce).exp()\n"
        "    loss = 0.25 * (1 - p).pow(2) * ce" + TRAIN,
    ),
    "a focal factor of an average of bits": (
        "focal_factor_of_the_mean",
        FOCAL + "    logp = -F.binary_cross_entropy_with_logits(net(x), F.one_hot(y, 4).float())  # HERE\n"
        "    rest = 1.0 - logp.exp()\n    loss = -(rest * rest * logp)" + TRAIN,
    ),
    "a focal factor of an average, with weights of the classes": (
        "focal_factor_of_the_mean",
        FOCAL + "    hot = F.one_hot(y, 4).float()\n    ce = F.binary_cross_entropy_with_logits(net(x), hot)  # HERE\n"
        "    loss = ((0.75 * hot + 0.25 * (1 - hot)) * (1 - torch.exp(-ce)) ** 2 * ce).sum() / hot.sum()" + TRAIN,
    ),
    "a focal factor of an average taken by hand": (
        "focal_factor_of_the_mean",
        FOCAL + "    ce = F.cross_entropy(net(x), y, reduction='none').mean()  # HERE\n"
        "    loss = ce * (1 - torch.exp(-ce)) ** 3" + TRAIN,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_rows_risk_sets_and_factors_of_the_wrong_kind_are_told(name: str, tmp_path: Path) -> None:
    cause, script = FAULTS[name]
    assert_first_alarm(script, cause, tmp_path)


def test_single_numbers_of_copied_rows_hide_no_mistake(tmp_path: Path) -> None:
    script = FAULTS["a list of copies, grouped at the end"][1]
    numbers = "    row = torch.randn(6).repeat(3)\n    first, last = row[0], row[-1]\n    x = torch"
    assert script.count("    x = torch") == 1
    assert_first_alarm(script.replace("    x = torch", numbers), "rows_grouped_otherwise", tmp_path)


HEALTHY = {
    "sums from the end, looked up for each time": TIMES
    + "    s, i = t.sort()\n    r = net(x)[:, 0]\n    total = r.exp()[i].flip(0).cumsum(0).flip(0)\n"
    "    k = torch.searchsorted(s, t)\n    loss = ((total[k].log() - r) * e).mean()" + TRAIN,
    "the whole sum without those before, looked up": TIMES
    + "    s, i = t.sort()\n    r = net(x)[:, 0]\n    before = F.pad(r.exp()[i].cumsum(0), (1, 0))\n"
    "    total = r.exp().sum() - before[torch.searchsorted(s, t)]\n    loss = ((total.log() - r) * e).mean()" + TRAIN,
    "sums in descending order that are ranked back": TIMES
    + "    i = t.argsort(descending=True)\n    r = net(x)[:, 0]\n    total = r[i].logcumsumexp(0)\n"
    "    loss = -((r - total[i.argsort()]) * e).mean()" + TRAIN,
    "sums in descending order that are written back": TIMES
    + "    i = (-t).argsort()\n    r = net(x)[:, 0]\n    total = torch.zeros(20)\n"
    "    total[i] = r[i].exp().cumsum(0)\n    loss = -((r - total.log()) * e).mean()" + TRAIN,
    "numbers of samples one after the other": VOTES.format(
        "torch.arange(6).repeat_interleave(3)", "x.index_select(0, rows)", (6, 3)
    ),
    "numbers of samples divided, and each row changed alone": VOTES.format(
        "torch.arange(18) // 3", ONE_BY_ONE, (6, 3)
    ),
    "numbers in tiles that are sorted before": VOTES.format(
        "torch.arange(6).tile(3).sort().values", "x[rows]", (6, 3)
    ),
    "joined copies, and a stack of chunks": NET + "for step in range(3):\n    x = torch.randn(6, 5)\n"
    "    many = torch.cat([x + 0.1 * torch.randn_like(x) for _ in range(3)])\n"
    "    p = torch.stack(net(many).log_softmax(1).chunk(3))\n"
    "    loss = F.cross_entropy(p.logsumexp(0), torch.randint(0, 4, (6,)))" + TRAIN,
    "repeated sample by sample, and each part of neighbours averaged alone": NET
    + "for step in range(3):\n    x = torch.randn(6, 5)\n    out = net(x.repeat_interleave(3, 0))\n"
    "    p = torch.stack([part.mean(0) for part in out.split(3)])\n"
    "    loss = F.cross_entropy(p, torch.randint(0, 4, (6,)))" + TRAIN,
    "repeated, and computed in small parts that are joined again": NET
    + "for step in range(3):\n    x = torch.randn(6, 5)\n"
    "    out = torch.cat([net(part) for part in x.repeat(3, 1).split(3)])\n"
    "    loss = F.cross_entropy(out.view(3, 6, 4).mean(0), torch.randint(0, 4, (6,)))" + TRAIN,
    "an upper triangle of ones, in ascending order": TIMES + "    i = t.argsort()\n"
    "    r, e = net(x)[:, 0][i], e[i].float()\n    total = torch.ones(len(r), len(r)).triu().mv(r.exp()).log()\n"
    "    loss = torch.dot(e, total - r) / e.sum()" + TRAIN,
    "joined views, split and stacked, and a mask of joined views": (
        VIEWS + "    z = F.normalize(net(torch.cat([a, b])), dim=1)\n    z = torch.stack(z.split(12), dim=1)\n"
        + CONTRAST_OF_VIEWS
    ),
    "repeated and grouped in front": grouped("x.repeat(3, 1)", "view(3, 6)", axis=0),
    "repeated sample by sample and grouped at the end": grouped("x.repeat_interleave(3, 0)", "view(6, 3)"),
    "repeated, grouped in front and turned": grouped("x.tile(3, 1)", "view(3, 6).T", "T.flatten()"),
    "copies in front that are turned before they are joined": grouped(
        "torch.stack([x] * 3).transpose(0, 1).reshape(18, 5)", "view(6, 3)"
    ),
    "as many copies as samples": grouped("x.repeat(6, 1)", "view(6, 6)"),
    "joined views and labels half a batch away": VIEWS
    + "    z = F.normalize(net(torch.cat([a, b])), dim=1)\n"
    + CONTRAST.format("torch.arange(24).roll(12)"),
    "views side by side and labels of neighbours": VIEWS
    + "    z = F.normalize(net(torch.stack([a, b], 1).flatten(0, 1)), dim=1)\n"
    + CONTRAST.format("torch.arange(24) ^ 1"),
    "views of a data set, and labels of neighbours": LOADED
    + "    z = F.normalize(net(views.flatten(0, 1)), dim=1)\n" + CONTRAST.format("torch.arange(24) ^ 1"),
    "views of a data set that are joined, and labels half a batch away": LOADED
    + "    z = F.normalize(net(torch.cat(views.unbind(1))), dim=1)\n" + CONTRAST.format("torch.arange(24).roll(12)"),
    "views side by side and an index of neighbours": VIEWS
    + "    z = F.normalize(net(torch.stack([a, b], 1).flatten(0, 1)), dim=1)\n"
    + CHOSEN.format(NEAR, "s.take_along_dim(partner[:, None], dim=1)[:, 0]"),
    "joined views and positives by rows and columns": VIEWS
    + "    z = F.normalize(net(torch.cat([a, b])), dim=1)\n" + CHOSEN.format(AWAY, "s[torch.arange(24), partner]"),
    "neighbours and, for negatives, rows half a batch away": VIEWS
    + "    z = F.normalize(net(torch.stack([a, b], 1).flatten(0, 1)), dim=1)\n"
    + CHOSEN.format(NEAR, f"s.gather(1, partner[:, None])[:, 0] + s.gather(1, {AWAY}[:, None])[:, 0]"),
    "joined views and paired halves": VIEWS + "    z = net(torch.cat([a, b]))\n" + PAIRS.format("z[:12]", "z[12:]"),
    "views side by side and pairs of neighbours": VIEWS
    + "    z = net(torch.stack([a, b], 1).flatten(0, 1))\n"
    + PAIRS.format("z[::2]", "z[1::2]"),
    "neighbours of a batch that was computed in two parts": VIEWS
    + "    both = torch.stack([a, b], 1).flatten(0, 1)\n    z = torch.cat([net(part) for part in both.chunk(2)])\n"
    + PAIRS.format("z[::2]", "z[1::2]"),
    "all pairs of two sets": NET
    + "for step in range(3):\n    x, y = torch.randn(6, 5), torch.randn(4, 5)\n"
    + "    gap = net(x.repeat(4, 1)) - net(y.repeat_interleave(6, 0))\n"
    + "    loss = gap.square().sum(1).view(4, 6).logsumexp(0).mean()" + TRAIN,
    "a descending order of times": TIMES
    + "    i = t.argsort(descending=True)\n    r, e = net(x)[i, 0], e[i]\n"
    + "    loss = -((r - r.logcumsumexp(0)) * e).sum() / e.sum()" + TRAIN,
    "a sum from the end of an ascending order": TIMES
    + "    i = t.argsort()\n    r, e = net(x)[i, 0], e[i]\n"
    + "    loss = -((r - r.flip(0).logcumsumexp(0).flip(0)) * e).mean()" + TRAIN,
    "a list that is ranked": NET
    + "for step in range(3):\n    x = torch.randn(20, 5)\n    i = x[:, 0].argsort(descending=True)\n"
    + "    s = net(x)[i, 0]\n    loss = (s.flip(0).logcumsumexp(0).flip(0) - s).mean()" + TRAIN,
    "a focal factor for each sample": FOCAL
    + "    ce = F.cross_entropy(net(x), y, reduction='none')\n    loss = ((1 - (-ce).exp()) ** 2 * ce).mean()" + TRAIN,
    "a learned scale of a loss": NET.replace("net.parameters()", "[*net.parameters(), s]").replace(
        "optimizer", "s = torch.zeros((), requires_grad=True)\noptimizer"
    )
    + "for step in range(3):\n    x = torch.randn(16, 5)\n"
    + "    loss = torch.exp(-s) * F.cross_entropy(net(x), x[:, :4].argmax(1)) + s" + TRAIN,
    "the probability of a batch is printed": FOCAL
    + "    ce = F.cross_entropy(net(x), y)\n    print(1 - torch.exp(-ce).item())\n    loss = 2 * ce" + TRAIN,
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_what_takes_rows_as_they_stand_raises_no_alarm(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)
