"""Faults of masks, targets, values and tables of distances in the words of other people, and healthy look-alikes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

ATTENTION = HEAD + (
    "tokens = torch.nn.Embedding(9, 8)\nproject, head = nn.Linear(8, 24), nn.Linear(8, 2)\n"
    "optimizer = torch.optim.Adam([*tokens.parameters(), *project.parameters(), *head.parameters()])\n"
    "layer = nn.MultiheadAttention(8, 2, batch_first=True).requires_grad_(False)\n"
    "for step in range(3):\n    ids = torch.randint(1, 9, (6, 5))\n    ids[:3, 3:] = 0\n    x = tokens(ids)\n"
    "    q, k, v = project(x).chunk(3, -1)\n{}    loss = F.cross_entropy(head(h.mean(1)), ids[:, 0] % 2)" + TRAIN
)
SDPA = "    h = F.scaled_dot_product_attention(q, k, v, attn_mask={})\n"
FIT = HEAD + (
    "net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))\n"
    "optimizer = torch.optim.SGD(net.parameters(), lr=0.05)\n"
    "for step in range(3):\n    x, y, weight = torch.randn(8, 4), torch.randn(8, 3), torch.rand(8)\n    out = net(x)\n"
)
VALUES = HEAD + (
    "net, slow = nn.Linear(4, 2), nn.Linear(4, 2)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.05)\n"
    "for step in range(3):\n    now, later, reward = torch.randn(8, 4), torch.randn(8, 4), torch.randn(8)\n"
    "    ended = torch.zeros(8)\n    ended[step] = 1.0\n    with torch.no_grad():\n"
    "        best = slow(later).amax(-1)\n        {}\n    loss = F.mse_loss(net(now)[:, 0], target)" + TRAIN
)
TABLE = HEAD + (
    "net = nn.Linear(6, 4)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.05)\n"
    "for step in range(3):\n    x, y = torch.randn(8, 6), torch.arange(8) % 3\n    z = F.normalize(net(x), dim=1)\n{}"
    + TRAIN
)
SHARES = (
    "    same = y[:, None] == y\n    share = s - s.logsumexp(1, keepdim=True)\n"
    "    loss = -(share.mul(same).sum(1) / same.sum(1)).mean()"
)

OF_OTHERS = SHARES.replace("y[:, None] == y", "y[:, None].eq(y) & ~torch.eye(8).bool()")

SCORES = "    s = torch.einsum('bid,bjd->bij', q, k) / 8**0.5\n"
MIX = "    h = torch.einsum('bij,bjd->bid', a, v)\n"

FAULTS = {
    "attention of einsum over queries": (
        "wrong_axis", ATTENTION.format(SCORES + "    a = s.softmax(1)  # HERE\n" + MIX),
    ),
    "attention by exponentials over queries": (
        "wrong_axis", ATTENTION.format(SCORES + "    e = s.exp()\n    a = e / e.sum(1, keepdim=True)  # HERE\n" + MIX),
    ),
    "attention by a logarithm over queries, and a product of matrices": (
        "wrong_axis",
        ATTENTION.format(SCORES + "    a = torch.exp(s - s.logsumexp(1, keepdim=True))  # HERE\n    h = a @ v\n"),
    ),
    "a mask of numbers for scaled_dot_product_attention": (
        "mask_without_effect",
        ATTENTION.format("    seen = torch.ones(5, 5).tril()  # HERE\n" + SDPA.format("seen")),
    ),
    "a comparison as numbers for scaled_dot_product_attention": (
        "mask_without_effect",
        ATTENTION.format("    seen = (ids != 0).float()[:, None]  # HERE\n" + SDPA.format("seen")),
    ),
    "a mask of numbers for MultiheadAttention": (
        "mask_without_effect",
        ATTENTION.format(
            "    pad = ids.eq(0).float()  # HERE\n    h, _ = layer(q, k, v, key_padding_mask=pad)\n"
        ),
    ),
    "a difference weighed by einsum": (
        "target_without_influence",
        FIT + "    gap = torch.add(out, y, alpha=-1)  # HERE\n    loss = torch.einsum('b,bt->', weight, gap)" + TRAIN,
    ),
    "a difference weighed by a product": (
        "target_without_influence",
        FIT + "    gap = out.sub(y)  # HERE\n    loss = (weight[:, None] * gap).mean()" + TRAIN,
    ),
    "a difference divided by data": (
        "target_without_influence",
        FIT + "    gap = (out - y).mean(1)  # HERE\n    loss = torch.dot(weight, gap)" + TRAIN,
    ),
    "values where an episode has ended, by addcmul": (
        "bootstraps_at_ends", VALUES.format("target = torch.addcmul(reward, ended, best, value=0.9)  # HERE"),
    ),
    "values where an episode has ended, in place": (
        "bootstraps_at_ends", VALUES.format("target = reward.clone().addcmul_(best, ended, value=0.9)  # HERE"),
    ),
    "values where an episode has ended, by einsum": (
        "bootstraps_at_ends", VALUES.format("target = reward + 0.9 * torch.einsum('b,b->b', ended, best)  # HERE"),
    ),
    "distances with their diagonal": (
        "similar_to_itself",
        TABLE.format(
            "    gap = (z[None] - z[:, None]).square().sum(-1)\n    s = (1 - 0.5 * gap) / 0.2  # HERE\n" + SHARES
        ),
    ),
    "distances of cdist with their diagonal": (
        "similar_to_itself", TABLE.format("    s = -torch.cdist(z, z)  # HERE\n" + SHARES),
    ),
    "norms of differences with their diagonal": (
        "similar_to_itself",
        TABLE.format(
            "    s = -torch.linalg.vector_norm(z[:, None] - z, dim=-1) / 0.2  # HERE\n"
            "    loss = F.cross_entropy(s, (torch.arange(8) + 4) % 8)"
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_it_is_told_in_other_words(name: str, tmp_path: Path) -> None:
    cause, script = FAULTS[name]
    assert_first_alarm(script, cause, tmp_path)


HEALTHY = {
    "attention of einsum over keys": ATTENTION.format(SCORES + "    a = s.softmax(-1)\n" + MIX),
    "attention by exponentials over keys": ATTENTION.format(
        SCORES + "    e = s.exp()\n    a = e / e.sum(-1, keepdim=True)\n" + MIX
    ),
    "slots that compete, and are divided by their sum": ATTENTION.format(
        SCORES + "    a = s.softmax(1) + 1e-8\n    a = a / a.sum(-1, keepdim=True)\n" + MIX
    ),
    "rows and columns in turns": ATTENTION.format(
        SCORES + "    for again in range(3):\n        s = s - s.logsumexp(2, keepdim=True)\n"
        "        t = s - s.logsumexp(1, keepdim=True)\n        s = t\n    a = t.exp()\n" + MIX
    ),
    "codes of each position that are added up": ATTENTION.format(
        "    s = q[..., :3]\n    a = (s - s.logsumexp(-1, keepdim=True)).exp()\n"
        "    h = torch.einsum('bnc,bnd->bcd', a, v)\n"
    ),
    "a mask of booleans": ATTENTION.format(SDPA.format("torch.ones(5, 5).tril().bool()")),
    "a mask of minus infinity": ATTENTION.format(
        "    far = torch.zeros(5, 5).masked_fill(torch.ones(5, 5).triu(1).bool(), -1e9)\n" + SDPA.format("far")
    ),
    "a bias that grows with the distance": ATTENTION.format(
        "    near = -(torch.arange(5.0)[:, None] - torch.arange(5.0)).abs()\n" + SDPA.format("near")
    ),
    "a squared difference that is weighed": FIT
    + "    loss = torch.einsum('b,bt->', weight, (out - y).square())"
    + TRAIN,
    "a quantile loss, whose weights are of the difference": FIT
    + "    gap = out - y\n    loss = ((gap > 0).float() - 0.3).mul(gap).mean()"
    + TRAIN,
    "a difference weighed by what is better or worse": FIT
    + "    loss = ((out - y) * torch.randn(8, 1)).mean() + out.square().mean()"
    + TRAIN,
    "values where it goes on, by addcmul": VALUES.format(
        "target = torch.addcmul(reward, 1 - ended, best, value=0.9)"
    ),
    "distances without their diagonal": TABLE.format(
        "    s = -torch.cdist(z, z).fill_diagonal_(1e6)\n" + OF_OTHERS
    ),
    "an estimate of a density from all distances": TABLE.format(
        "    near = (-torch.cdist(z, z).square()).exp()\n"
        "    loss = near.sum(1).log().mean() + (z - x[:, :4]).square().mean()"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_what_only_looks_like_it_is_left_alone(name: str, tmp_path: Path) -> None:
    causes = {
        "mask_without_effect",
        "target_without_influence",
        "bootstraps_at_ends",
        "similar_to_itself",
        "wrong_axis",
    }
    assert not causes.intersection(each.cause for each in alarms(HEALTHY[name], tmp_path))
