"""Indexes that are taken for values, entropies without logarithms, penalties without absolute values, random features,
samples that are drawn twice, and hinges on deviations."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

VALUES = (
    HEAD + "net, target = nn.Linear(4, 3), nn.Linear(4, 3)\noptimizer = torch.optim.Adam(net.parameters())\n"
    "for step in range(4):\n    s, s2, r = torch.randn(16, 4), torch.randn(16, 4), torch.randn(16)\n"
    "    a, done = torch.randint(0, 3, (16,)), (torch.rand(16) < 0.2).float()\n{}" + TRAIN
    + "    target.load_state_dict(net.state_dict())\n"
)  # fmt: skip
SOFT = (
    HEAD + "net = nn.Linear(6, 4)\noptimizer = torch.optim.Adam(net.parameters())\nteacher = nn.Linear(6, 4)\n"
    "for step in range(4):\n    x, y = torch.randn(16, 6), torch.randint(0, 4, (16,))\n{}" + TRAIN
)
WEIGHTS = (
    HEAD + "net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))\n"
    "optimizer = torch.optim.SGD(net.parameters(), 0.01)\n"
    "for step in range(4):\n    x = torch.randn(16, 4)\n    fit = F.mse_loss(net(x), x[:, :1] ** 2)\n{}" + TRAIN
)
IMAGES = (
    HEAD + "net = nn.Conv2d(1, 1, 3, padding=1)\noptimizer = torch.optim.Adam(net.parameters())\n"
    "for step in range(4):\n    x = torch.rand(2, 1, 6, 6)\n    out = net(x)\n{}" + TRAIN
)
FEATURES = (
    HEAD + "net = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 1))\n"
    "optimizer = torch.optim.Adam(net.parameters())\nkept = torch.randn(2, 8) * 3\n{}"
    "for step in range(5):\n    x = torch.rand(16, 2)\n    loss = F.mse_loss(net(encode(x)), x[:, :1])" + TRAIN
)
DRAWN = (
    HEAD + "net = nn.Linear(4, 3)\noptimizer = torch.optim.Adam(net.parameters())\n"
    "for step in range(4):\n    s = torch.randn(16, 4)\n    best = (s[:, 0] > 0).long()\n{}" + TRAIN
)
VARIANCES = (
    HEAD + "net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))\n"
    "optimizer = torch.optim.Adam(net.parameters())\n"
    "def covariance(z):\n    z = z - z.mean(0)\n    c = z.T @ z / (len(z) - 1)\n"
    "    return (c - torch.diag(torch.diagonal(c))).pow(2).sum() / 4\n"
    "for step in range(4):\n    x = torch.randn(32, 6)\n"
    "    a, b = net(x + 0.1 * torch.randn(32, 6)), net(x + 0.1 * torch.randn(32, 6))\n"
    "    s, t = (a.var(0) + 1e-4).sqrt(), b.std(dim=0)\n{}" + TRAIN
)  # fmt: skip
FAULTS = {
    "a hinge that punishes large deviations": (
        "nothing_keeps_apart",
        VARIANCES.format(
            "    spread = F.relu(s - 1).mean() + F.relu(t - 1).mean()  # HERE\n"
            "    loss = 25 * F.mse_loss(a, b) + 25 * spread"
        ),
    ),
    "the same beside a covariance": (
        "nothing_keeps_apart",
        VARIANCES.format(
            "    spread = torch.clamp(t - 1.0, min=0).mean()  # HERE\n"
            "    loss = 25 * (a - b).square().mean() + 25 * spread + covariance(a) + covariance(b)"
        ),
    ),
    "the index of the best action": (
        "index_as_value",
        VALUES.format(
            "    q = net(s).gather(1, a[:, None]).squeeze(1)\n    with torch.no_grad():\n"
            "        best = target(s2).max(1)[1]  # HERE\n    loss = F.mse_loss(q, r + 0.9 * best * (1 - done))"
        ),
    ),
    "the same as a float, with argmax and another loss": (
        "index_as_value",
        VALUES.format(
            "    gamma = torch.tensor(0.9)\n    index = target(s2).detach().argmax(dim=1, keepdim=True)  # HERE\n"
            "    y = r[:, None] + gamma * (1 - done[:, None]) * index.float()\n"
            "    loss = ((net(s).gather(1, a.view(-1, 1)) - y) ** 2).mean()"
        ),
    ),
    "a soft entropy of probabilities": (
        "entropy_without_log",
        SOFT.format(
            "    with torch.no_grad():\n        t = F.softmax(teacher(x) / 2, 1)\n"
            "    p = net(x).softmax(1)\n    loss = (-t * p).sum(1).mean()  # HERE"
        ),
    ),
    "smoothed labels times probabilities": (
        "entropy_without_log",
        SOFT.format(
            "    t = F.one_hot(y, 4) * 0.9 + 0.1 / 4\n    p = F.softmax(net(x), -1).clamp(min=1e-7)\n"
            "    loss = -torch.sum(p * t, dim=-1).mean()  # HERE"
        ),
    ),
    "mixed labels, contracted with probabilities": (
        "entropy_without_log",
        SOFT.format(
            "    labels = torch.eye(4)[y]\n    t = torch.lerp(labels.roll(1, 0), labels, 0.7)\n"
            "    p = net(x).softmax(1)\n    loss = torch.tensordot(t, p, dims=2).neg() / len(x)  # HERE"
        ),
    ),
    "a sum of named axes": (
        "entropy_without_log",
        SOFT.format(
            "    t = teacher(x).softmax(-1).detach()\n"
            "    loss = -torch.einsum('bc,bc->b', t, torch.softmax(net(x), -1)).mean()  # HERE"
        ),
    ),
    "vectors of targets": (
        "entropy_without_log",
        SOFT.format(
            "    t = F.one_hot(y, 4).float()\n    t = 0.6 * t + 0.4 * t.flip(0)\n"
            "    loss = torch.linalg.vecdot(t, net(x).softmax(1)).mean().neg()  # HERE"
        ),
    ),
    "votes that were divided by their number": (
        "entropy_without_log",
        SOFT.format(
            "    votes = torch.randint(0, 5, (len(y), 4)).float() + 1\n"
            "    t = votes / votes.sum(-1, keepdim=True)\n    t = t.lerp(torch.full_like(t, 0.25), 0.1)\n"
            "    loss = -torch.linalg.vecdot(t, net(x).softmax(-1)).mean()  # HERE"
        ),
    ),
    "shares of counts": (
        "entropy_without_log",
        SOFT.format(
            "    t = F.normalize(torch.rand(len(y), 4), p=1, dim=1)\n"
            "    loss = -(t * net(x).softmax(-1)).sum(1).mean()  # HERE"
        ),
    ),
    "distributions that were drawn": (
        "entropy_without_log",
        SOFT.format(
            "    t = torch.distributions.Dirichlet(torch.ones(4)).sample((len(y),))\n"
            "    loss = torch.einsum('nc,nc->', t, net(x).softmax(-1)).neg() / len(y)  # HERE"
        ),
    ),
    "differences of coefficients along a grid": (
        "penalty_without_abs",
        WEIGHTS.format(
            "    d = curve.narrow(0, 1, 4) - curve.narrow(0, 0, 4)  # HERE\n"
            "    loss = fit + (curve.sum() - 1) ** 2 + 0.1 * torch.dot(d, torch.ones(4))"
        )
        .replace("SGD(net.parameters(), 0.01)", "SGD([*net.parameters(), curve], 0.01)")
        .replace("optimizer =", "curve = nn.Parameter(torch.randn(5))\noptimizer ="),
    ),
    "a convolution with a slope": (
        "penalty_without_abs",
        WEIGHTS.format("    d = F.conv1d(curve.view(1, 1, -1), slope)  # HERE\n    loss = fit + 0.1 * d.mean()")
        .replace("SGD(net.parameters(), 0.01)", "SGD([*net.parameters(), curve], 0.01)")
        .replace(
            "optimizer =", "curve = nn.Parameter(torch.randn(5))\nslope = torch.tensor([[[-1.0, 1.0]]])\noptimizer ="
        ),
    ),
    "a product with a matrix of differences": (
        "penalty_without_abs",
        WEIGHTS.format("    d = steps @ curve  # HERE\n    loss = fit + 0.1 * d.mean()")
        .replace("SGD(net.parameters(), 0.01)", "SGD([*net.parameters(), curve], 0.01)")
        .replace(
            "optimizer =", "curve = nn.Parameter(torch.randn(5))\nsteps = torch.diff(torch.eye(5), dim=0)\noptimizer ="
        ),
    ),
    "neighbours that are added with a minus": (
        "penalty_without_abs",
        WEIGHTS.format("    d = torch.add(curve[1:], curve[:-1], alpha=-1)  # HERE\n    loss = fit + 0.1 * d.mean()")
        .replace("SGD(net.parameters(), 0.01)", "SGD([*net.parameters(), curve], 0.01)")
        .replace("optimizer =", "curve = nn.Parameter(torch.randn(5))\nkept = 0\noptimizer ="),
    ),
    "a penalty of weights in a comprehension": (
        "penalty_without_abs",
        WEIGHTS.format("    l1 = sum(p.sum() for p in net.parameters())  # HERE\n    loss = fit + 1e-3 * l1"),
    ),
    "a penalty of weights in a loop": (
        "penalty_without_abs",
        WEIGHTS.format(
            "    loss = fit\n    for name, p in net.named_parameters():\n        if 'weight' in name:\n"
            "            loss = loss + 0.01 * p.mean()  # HERE"
        ),
    ),
    "a penalty of squares of sums": (
        "penalty_without_abs",
        WEIGHTS.format(
            "    loss = fit + sum(1e-3 * p.sum() ** 2 for n, p in net.named_parameters() if 'weight' in n)  # HERE"
        ),
    ),
    "a total variation without absolute values": (
        "penalty_without_abs",
        IMAGES.format(
            "    down, right = out[:, :, 1:] - out[:, :, :-1], out[..., 1:] - out[..., :-1]  # HERE\n"
            "    loss = F.mse_loss(out, x) + 0.1 * (down.mean() + right.mean())"
        ),
    ),
    "the same along one axis": (
        "penalty_without_abs",
        IMAGES.format("    tv = torch.diff(out, dim=-1).mean()  # HERE\n    loss = F.mse_loss(out, x) + 0.1 * tv"),
    ),
    "Fourier features of new frequencies": (
        "features_redrawn",
        FEATURES.format(
            "def encode(x):\n    B = torch.randn(2, 8) * 3  # HERE\n    z = 6.28 * x @ B\n"
            "    return torch.cat([z.sin(), z.cos()], -1)\n"
        ),
    ),
    "the same in a module": (
        "features_redrawn",
        FEATURES.format(
            "class Encode(nn.Module):\n    def forward(self, x):\n"
            "        W = torch.normal(0.0, 2.0, (8, x.shape[1]), device=x.device)  # HERE\n        z = F.linear(x, W)\n"
            "        return torch.cat((torch.cos(z), torch.sin(z)), dim=1)\n"
            "encode = Encode()\n"
        ),
    ),
    "the logarithm for a second sample": (
        "drawn_twice",
        DRAWN.format(
            "    dist = torch.distributions.Categorical(logits=net(s))\n    reward = (dist.sample() == best).float()\n"
            "    logp = dist.log_prob(dist.sample())  # HERE\n    loss = -(logp * (reward - reward.mean())).mean()"
        ),
    ),
    "the same by hand": (
        "drawn_twice",
        DRAWN.format(
            "    p = net(s).softmax(1)\n    a = torch.multinomial(p, 1)\n    reward = (a[:, 0] == best).float() - 0.3\n"
            "    b = torch.multinomial(p, 1)  # HERE\n    loss = -(p.log().gather(1, b)[:, 0] * reward).mean()"
        ),
    ),
    "the same of scores, with probabilities that are computed for each draw": (
        "drawn_twice",
        DRAWN.format(
            "    z = net(s)\n    def draw():\n        return torch.multinomial(z.softmax(-1), 1)  # HERE\n"
            "    reward = s[:, :3].take_along_dim(draw(), 1)[:, 0]\n"
            "    logp = z.log_softmax(-1).take_along_dim(draw(), 1)[:, 0]\n"
            "    loss = -torch.dot(reward - reward.mean(), logp) / 16"
        ),
    ),
    "the same of a normal distribution": (
        "drawn_twice",
        DRAWN.format(
            "    dist = torch.distributions.Normal(net(s)[:, 0], 0.5)\n    reward = -(dist.sample() - s[:, 1]) ** 2\n"
            "    logp = dist.log_prob(dist.sample())  # HERE\n    loss = -(logp * (reward - reward.mean())).mean()"
        ),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_mistake_is_the_first_alarm(name: str, tmp_path: Path) -> None:
    cause, script = FAULTS[name]
    assert_first_alarm(script, cause, tmp_path)


HEALTHY = {
    "differences of coefficients, squared and contracted": WEIGHTS.format(
        "    d = curve[1:] - curve[:-1]\n    loss = fit + (curve.sum() - 1) ** 2 + 0.1 * torch.dot(d, d)"
    )
    .replace("SGD(net.parameters(), 0.01)", "SGD([*net.parameters(), curve], 0.01)")
    .replace("optimizer =", "curve = nn.Parameter(torch.randn(5))\noptimizer ="),
    "mixed labels times logarithms": SOFT.format(
        "    labels = torch.eye(4)[y]\n    t = torch.lerp(labels.roll(1, 0), labels, 0.7)\n"
        "    loss = torch.tensordot(t, net(x).log_softmax(1), dims=2).neg() / len(x)"
    ),
    "the probability of the label": SOFT.format(
        "    loss = 1 - torch.einsum('bc,bc->b', torch.eye(4)[y], net(x).softmax(1)).mean()"
    ),
    "one draw of scores, for both": DRAWN.format(
        "    z = net(s)\n    a = torch.multinomial(z.softmax(-1), 1)\n"
        "    reward = s[:, :3].take_along_dim(a, 1)[:, 0]\n"
        "    logp = z.log_softmax(-1).take_along_dim(a, 1)[:, 0]\n"
        "    loss = -torch.dot(reward - reward.mean(), logp) / 16"
    ),
    "weights that should add up to one": WEIGHTS.format("    loss = fit + 1e-3 * (net[0].weight.sum() - 1) ** 2"),
    "the square of a mean of results": WEIGHTS.format("    loss = fit + 1e-3 * net(x).mean() ** 2"),
    "a hinge that asks for deviations": VARIANCES.format(
        "    loss = F.mse_loss(a, b) + F.relu(1 - s).mean() + F.relu(1 - t).mean() + covariance(a) + covariance(b)"
    ),
    "deviations between two bounds": VARIANCES.format(
        "    loss = F.mse_loss(a, b) + F.relu(0.5 - s).mean() + F.relu(s - 2).mean()"
    ),
    "large deviations beside an error": VARIANCES.format(
        "    loss = F.mse_loss(a, b) + F.relu(s - 1).mean() + (a - x[:, :4]).pow(2).mean()"
    ),
    "large deviations beside wished ones": VARIANCES.format(
        "    loss = F.mse_loss(a, b) + F.relu(s - 1).mean() + (t - 1).pow(2).mean()"
    ),
    "the value of the best action": VALUES.format(
        "    q = net(s).gather(1, a[:, None]).squeeze(1)\n    with torch.no_grad():\n"
        "        y = r + 0.9 * target(s2).max(1)[0] * (1 - done)\n    loss = F.mse_loss(q, y)"
    ),
    "values of actions that another network chose": VALUES.format(
        "    q = net(s).gather(1, a[:, None]).squeeze(1)\n    with torch.no_grad():\n"
        "        index = net(s2).max(1, keepdim=True)[1]\n"
        "        y = r + 0.9 * target(s2).gather(1, index)[:, 0] * (1 - done)\n    loss = F.mse_loss(q, y)"
    ),
    "a position that was read from a map of scores": VALUES.format(
        "    with torch.no_grad():\n        place = target(s2).argmax(1) * 4 + torch.rand(16)\n"
        "    loss = F.mse_loss(net(s)[:, 0], place)"
    ),
    "a soft entropy": SOFT.format(
        "    t = teacher(x).softmax(1).detach()\n    loss = -(t * F.log_softmax(net(x), 1)).sum(1).mean()"
    ),
    "votes and logarithms": SOFT.format(
        "    votes = torch.randint(0, 5, (len(y), 4)).float() + 1\n    t = votes / votes.sum(-1, keepdim=True)\n"
        "    loss = -torch.linalg.vecdot(t, net(x).log_softmax(-1)).mean()"
    ),
    "rewards that were divided by those of all samples": SOFT.format(
        "    r = torch.rand(len(y), 4)\n    r = r / r.sum(0, keepdim=True)\n"
        "    loss = -(r * net(x).softmax(-1)).sum(1).mean()"
    ),
    "weights of classes": SOFT.format(
        "    w = torch.rand(4)\n    w = w / w.sum(-1, keepdim=True)\n    loss = -(w * net(x).softmax(-1)).sum(1).mean()"
    ),
    "an agreement with a softmax": SOFT.format(
        "    t = teacher(x).softmax(1).detach()\n    loss = 1 - (t * net(x).softmax(1)).sum(1).mean()"
    ),
    "the probability of the right class": SOFT.format(
        "    loss = -(F.one_hot(y, 4) * net(x).softmax(1)).sum(1).mean()"
    ),
    "values of actions times probabilities": SOFT.format(
        "    q = teacher(x).detach()\n    loss = -(q * net(x).softmax(1)).sum(1).mean()"
    ),
    "the logarithm of an agreement": SOFT.format(
        "    t = teacher(x).softmax(1).detach()\n    loss = -(t * net(x).softmax(1)).sum(1).log().mean()"
    ),
    "a penalty of absolute weights": WEIGHTS.format(
        "    loss = fit + 1e-3 * sum(p.abs().sum() for p in net.parameters())"
    ),
    "absolute weights by their signs": WEIGHTS.format(
        "    loss = fit + 1e-3 * sum((p * p.detach().sign()).sum() for p in net.parameters())"
    ),
    "parameters that are only touched": WEIGHTS.format("    loss = fit + 0.0 * sum(p.sum() for p in net.parameters())"),
    "weights that are never negative": WEIGHTS.format(
        "    with torch.no_grad():\n        net[2].weight.clamp_(min=0)\n    loss = fit + 1e-3 * net[2].weight.sum()"
    ),
    "weights with a fixed sum": WEIGHTS.format(
        "    off = net[2].weight.sum() - 1\n    loss = fit + 0.1 * off + 0.5 * off**2"
    ),
    "a total variation": IMAGES.format(
        "    tv = (out[:, :, 1:] - out[:, :, :-1]).abs().mean() + (out[..., 1:] - out[..., :-1]).abs().mean()\n"
        "    loss = F.mse_loss(out, x) + 0.1 * tv"
    ),
    "a convolution with a slope, absolute": WEIGHTS.format(
        "    d = F.conv1d(curve.view(1, 1, -1), slope)\n    loss = fit + 0.1 * d.abs().mean()"
    )
    .replace("SGD(net.parameters(), 0.01)", "SGD([*net.parameters(), curve], 0.01)")
    .replace("optimizer =", "curve = nn.Parameter(torch.randn(5))\nslope = torch.tensor([[[-1.0, 1.0]]])\noptimizer ="),
    "a product with a matrix of differences, absolute": WEIGHTS.format(
        "    d = steps @ curve\n    loss = fit + 0.1 * d.abs().mean()"
    )
    .replace("SGD(net.parameters(), 0.01)", "SGD([*net.parameters(), curve], 0.01)")
    .replace(
        "optimizer =", "curve = nn.Parameter(torch.randn(5))\nsteps = torch.diff(torch.eye(5), dim=0)\noptimizer ="
    ),
    "neighbours that are added with a minus, absolute": WEIGHTS.format(
        "    d = torch.add(curve[1:], curve[:-1], alpha=-1)\n    loss = fit + 0.1 * d.abs().mean()"
    )
    .replace("SGD(net.parameters(), 0.01)", "SGD([*net.parameters(), curve], 0.01)")
    .replace("optimizer =", "curve = nn.Parameter(torch.randn(5))\nkept = 0\noptimizer ="),
    "a filter of edges on a result": IMAGES.format(
        "    edge = F.conv2d(out, torch.tensor([[[[-1.0, 0.0, 1.0]]]]))\n"
        "    loss = F.mse_loss(out, x) + 0.1 * edge.mean()"
    ),
    "a learned convolution": IMAGES.format(
        "    loss = F.mse_loss(out, x) + 0.1 * F.conv2d(x, net.weight).mean().square()"
    ),
    "a trend along one axis": IMAGES.format(
        "    loss = F.mse_loss(out, x) + 0.1 * (out[..., :-1] - out[..., 1:]).mean()"
    ),
    "kept frequencies": FEATURES.format(
        "def encode(x):\n    z = x @ kept\n    return torch.cat([z.sin(), z.cos()], -1)\n"
    ),
    "frequencies of a fixed seed": FEATURES.format(
        "def encode(x):\n    source = torch.Generator().manual_seed(1)\n"
        "    z = x @ torch.randn(2, 8, generator=source)\n    return torch.cat([z.sin(), z.cos()], -1)\n"
    ),
    "random projections of noise": FEATURES.format(
        "def encode(x):\n    z = (x + 0.1 * torch.randn(16, 2)) @ kept\n    return torch.cat([z.sin(), z.cos()], -1)\n"
    ),
    "statistics of new random features": SOFT.format(
        "    def features(h):\n        z = h @ torch.randn(4, 8)\n        return torch.cat([z.sin(), z.cos()], 1)\n"
        "    loss = F.cross_entropy(net(x), y) + (features(net(x)).mean(0) - features(net(x)).mean(0)).square().sum()"
    ),
    "the logarithm of the action": DRAWN.format(
        "    dist = torch.distributions.Categorical(logits=net(s))\n    a = dist.sample()\n"
        "    reward = (a == best).float()\n    loss = -(dist.log_prob(a) * (reward - reward.mean())).mean()"
    ),
    "two samples that are each other's baseline": DRAWN.format(
        "    dist = torch.distributions.Categorical(logits=net(s))\n    a, b = dist.sample(), dist.sample()\n"
        "    gain = (a == best).float() - (b == best).float()\n"
        "    loss = -(dist.log_prob(a) * gain - dist.log_prob(b) * gain).mean()"
    ),
    "rewards of an environment and a baseline of another sample": DRAWN.format(
        "    dist = torch.distributions.Categorical(logits=net(s))\n    base = (dist.sample() == best).float().mean()\n"
        "    a = dist.sample()\n    reward = torch.tensor([float(each == 1) for each in a.tolist()])\n"
        "    loss = -(dist.log_prob(a) * (reward - base)).mean()"
    ),
    "a sample as the baseline": DRAWN.format(
        "    dist = torch.distributions.Categorical(logits=net(s))\n    a = dist.sample()\n"
        "    gain = (a == best).float() - (dist.sample() == best).float()\n"
        "    loss = -(dist.log_prob(a) * gain).mean()"
    ),
    "an entropy of further samples": DRAWN.format(
        "    dist = torch.distributions.Categorical(logits=net(s))\n    a = dist.sample()\n"
        "    reward = (a == best).float() - 0.3\n"
        "    loss = -(dist.log_prob(a) * reward).mean() + 0.01 * dist.log_prob(dist.sample()).mean()"
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_what_is_meant_is_left_alone(name: str, tmp_path: Path) -> None:
    told = {cause for cause, _ in FAULTS.values()}
    assert not told & {each.cause for each in alarms(HEALTHY[name], tmp_path)}
