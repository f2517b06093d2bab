"""Scores that are multiplied where they are to be divided, normalizations by a variance, entropies of scores, and
discriminators that are asked the same on all samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms

ATTENTION = """
query, key, value = (nn.Linear(16, 16) for _ in range(3))
optimizer = torch.optim.SGD([*query.parameters(), *key.parameters(), *value.parameters()], lr=0.1)
for step in range(3):
    x = torch.randn(8, 5, 16)
    q, k, v = query(x), key(x), value(x)
"""
HEADS = "    q, k, v = (each.view(8, 5, 2, 8).transpose(1, 2) for each in (q, k, v))\n"
NORMAL = """
first, last, gain = nn.Linear(4, 8), nn.Linear(8, 1), nn.Parameter(torch.ones(8))
optimizer = torch.optim.SGD([*first.parameters(), *last.parameters(), gain], lr=0.01)
for step in range(3):
    x = torch.randn(16, 4)
    h = first(x)
    mean, var = h.mean(-1, keepdim=True), h.var(-1, keepdim=True, unbiased=False)
"""
POLICY = """
policy = nn.Linear(4, 3)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
for step in range(3):
    scores, reward = policy(torch.randn(16, 4)), torch.randn(16)
    p = scores.softmax(-1)
    action = torch.multinomial(p, 1)
    score = -(scores.log_softmax(-1).gather(1, action).squeeze(1) * reward).mean()
"""
PLAYERS = """
G, D = nn.Linear(4, 2), nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(), nn.Linear(8, 1))
for_g, for_d = torch.optim.Adam(G.parameters(), lr=0.01), torch.optim.Adam(D.parameters(), lr=0.01)
for step in range(4):
    real, fake = torch.randn(16, 2) + 2, G(torch.randn(16, 4))
    ones, zeros = torch.ones(16, 1), torch.zeros(16, 1)
{loss}
    for_d.zero_grad()
    loss.backward()
    for_d.step()
    g_loss = -D(fake).mean()
    for_g.zero_grad()
    g_loss.backward()
    for_g.step()
"""

RANKING = """
items, encode = nn.Embedding(30, 8), nn.Linear(6, 8)
optimizer = torch.optim.Adam([*items.parameters(), *encode.parameters()], lr=0.01)
for step in range(3):
    i, j, user = torch.randint(0, 30, (16,)), torch.randint(0, 30, (16,)), encode(torch.randn(16, 6))
    pos, neg = (user * items(i)).sum(1), (user * items(j)).sum(1)
    d_ap, d_an = (user - items(i)).norm(dim=1), (user - items(j)).norm(dim=1)
"""

FAULTS = {
    ("negative_preferred", "a pairwise loss"): RANKING + "    loss = -F.logsigmoid(neg - pos).mean()  # HERE" + TRAIN,
    ("negative_preferred", "a triplet of distances"): RANKING
    + "    loss = F.relu(0.5 + d_an - d_ap).mean()  # HERE" + TRAIN,
    ("negative_preferred", "a margin of which scores are taken off"): RANKING
    + "    loss = (0.5 - (neg - pos)).clamp(min=0).mean()  # HERE" + TRAIN,
    ("scores_scaled_up", "a product times the root of the length"): ATTENTION
    + "    w = (q @ k.transpose(1, 2) * 16**0.5).softmax(-1)  # HERE\n    loss = (w @ v - x).square().mean()" + TRAIN,
    ("scores_scaled_up", "heads, divided by a scale below 1, and a mask"): ATTENTION + HEADS
    + "    scale = 8**-0.5\n    w = torch.einsum('bhid,bhjd->bhij', q, k) / scale  # HERE\n"
    "    w = w.masked_fill(torch.triu(torch.ones(5, 5), 1).bool(), float('-inf')).softmax(-1)\n"
    "    loss = (w @ v).square().mean()" + TRAIN,
    ("scores_scaled_up", "a factor of the call that adds the product to a bias"): ATTENTION
    + "    bias = x.new_zeros(8, 5, 5)\n    w = torch.baddbmm(bias, q, k.mT, alpha=16**0.5).softmax(-1)  # HERE\n"
    "    loss = (w @ v - x).square().mean()" + TRAIN,
    ("scores_scaled_up", "queries that are multiplied before"): ATTENTION
    + "    q = q * 16**0.5  # HERE\n    w = (q @ k.transpose(1, 2)).softmax(-1)\n"
    "    loss = (w @ v - x).square().mean()" + TRAIN,
    ("scores_scaled_up", "a scale of the fused attention"): ATTENTION
    + "    loss = (F.scaled_dot_product_attention(q, k, v, scale=16**0.5) - x).square().mean()  # HERE" + TRAIN,
    ("scores_scaled_up", "a trained bias, and the factor of a sum"): ATTENTION
    + "    w = torch.add(value.bias[:5], torch.einsum('bid,bjd->bij', q, k), alpha=4.0)  # HERE\n"
    "    loss = (w.softmax(-1) @ v - x).square().mean()" + TRAIN,
    ("scores_scaled_up", "a scale in an addcmul()"): ATTENTION
    + "    w = torch.addcmul(value.bias[:5], q @ k.mT, torch.tensor(4.0))  # HERE\n"
    "    loss = (w.softmax(-1) @ v - x).square().mean()" + TRAIN,
    ("scores_scaled_up", "products that are added up by hand"): ATTENTION
    + "    w = (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1).div_(16**-0.5)  # HERE\n"
    "    loss = (w.softmax(-1) @ v - x).square().mean()" + TRAIN,
    ("divided_by_variance", "a layer normalization by hand"): NORMAL
    + "    loss = last(gain * (h - mean) / (var + 1e-5)).square().mean()  # HERE" + TRAIN,
    ("entropy_of_scores", "probabilities times scores"): POLICY
    + "    loss = score + 0.01 * (p * scores).sum(-1).mean()  # HERE" + TRAIN,
    ("players_agree", "a hinge that asks the same of real and generated samples"): PLAYERS.format(
        loss="    loss = F.relu(1 - D(real)).mean() + F.relu(1 - D(fake.detach())).mean()  # HERE"
    ),
    ("players_agree", "the same labels for real and generated samples"): PLAYERS.format(
        loss="    bce = F.binary_cross_entropy_with_logits\n    loss = bce(D(real), ones)\n"
        "    loss = loss + bce(D(fake.detach()), ones)  # HERE"
    ),
    ("players_agree", "targets that are joined in the other order than the samples"): PLAYERS.format(
        loss="    both, targets = D(torch.cat([fake.detach(), real])), torch.cat([ones, zeros])\n"
        "    loss = F.binary_cross_entropy_with_logits(both, targets)  # HERE"
    ),
    ("players_agree", "outputs that are joined, and least squares"): PLAYERS.format(
        loss="    both, targets = torch.cat([D(real), D(fake.detach())]), torch.cat([zeros, ones])\n"
        "    loss = F.mse_loss(both.flatten(), targets.flatten())  # HERE"
    ).replace("-D(fake).mean()", "F.mse_loss(D(fake), ones)"),
    ("players_agree", "a critic whose sign is turned round"): PLAYERS.format(
        loss="    loss = D(real).mean() - D(fake.detach()).mean()  # HERE"
    ),
}  # fmt: skip

HEALTHY = {
    "a pairwise loss": RANKING + "    loss = -F.logsigmoid(pos - neg).mean()" + TRAIN,
    "a pairwise loss with softplus": RANKING + "    loss = F.softplus(neg - pos).mean()" + TRAIN,
    "a triplet of distances": RANKING + "    loss = F.relu(d_ap - d_an + 0.5).mean()" + TRAIN,
    "negative distances as scores": RANKING
    + "    pos, neg = -d_ap, -d_an\n    loss = F.relu(0.5 - pos + neg).mean()" + TRAIN,
    "scores divided by the root": ATTENTION
    + "    w = (q @ k.transpose(1, 2) / 16**0.5).softmax(-1)\n    loss = (w @ v - x).square().mean()" + TRAIN,
    "a factor below one of the call that adds the product to a bias": ATTENTION
    + "    w = torch.baddbmm(x.new_zeros(8, 5, 5), q, k.mT, alpha=16**-0.5).softmax(-1)\n"
    "    loss = (w @ v - x).square().mean()" + TRAIN,
    "unit vectors times the root of their length": ATTENTION
    + "    q, k = F.normalize(q, dim=-1), k / k.norm(dim=-1, keepdim=True)\n"
    "    w = (q @ k.transpose(1, 2) * 16**0.5).softmax(-1)\n    loss = (w @ v - x).square().mean()" + TRAIN,
    "queries divided before, keys multiplied": ATTENTION
    + "    w = ((q / 16) @ (k * 16**0.5).transpose(1, 2)).softmax(-1)\n    loss = (w @ v - x).square().mean()" + TRAIN,
    "a scale of the fused attention that is right": ATTENTION
    + "    loss = (F.scaled_dot_product_attention(q * 2, k, v, scale=16**-0.5) - x).square().mean()" + TRAIN,
    "scores of unit vectors times a number": ATTENTION
    + "    q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)\n"
    "    w = (q @ k.transpose(1, 2) * 10.0).softmax(-1)\n    loss = (w @ v - x).square().mean()" + TRAIN,
    "a layer normalization": NORMAL
    + "    loss = last(gain * (h - mean) / (var + 1e-5).sqrt()).square().mean()" + TRAIN,
    "a likelihood with a variance": NORMAL
    + "    loss = ((last(gain * h) - x[:, :1]) ** 2 / (var + 1e-3) + (var + 1e-3).log()).mean()" + TRAIN,
    "an entropy": POLICY
    + "    loss = score + 0.01 * (p * scores.log_softmax(-1)).sum(-1).mean()" + TRAIN,
    "an expected value": POLICY.replace("score = ", "other = ")
    + "    loss = other + ((p.detach() * scores).sum(-1) - reward).square().mean()" + TRAIN,
    "a hinge": PLAYERS.format(loss="    loss = F.relu(1 - D(real)).mean() + F.relu(1 + D(fake.detach())).mean()"),
    "samples and targets that are joined in one order": PLAYERS.format(
        loss="    both, targets = D(torch.cat([fake.detach(), real])), torch.cat([zeros, ones])\n"
        "    loss = F.binary_cross_entropy_with_logits(both, targets)"
    ),
    "opposite targets and a penalty on both": PLAYERS.format(
        loss="    bce = F.binary_cross_entropy_with_logits\n    on_real, on_fake = D(real), D(fake.detach())\n"
        "    loss = bce(on_real, ones) + bce(on_fake, zeros) + 0.1 * (on_real**2 + on_fake**2).mean()"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("cause", "name"), FAULTS)
def test_a_fault_is_told_at_its_line(cause: str, name: str, tmp_path: Path) -> None:
    script = HEAD + FAULTS[cause, name]
    wanted = next(number for number, line in enumerate(script.splitlines(), 1) if line.endswith("# HERE"))
    assert [each.location.line for each in alarms(script, tmp_path) if each.cause == cause and each.location] == [
        wanted
    ]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_program_raises_no_alarm(name: str, tmp_path: Path) -> None:
    assert [each.message for each in alarms(HEAD + HEALTHY[name], tmp_path)] == []
