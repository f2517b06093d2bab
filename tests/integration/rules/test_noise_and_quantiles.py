"""Noise of the wrong distribution, quantiles, mixtures, mixed labels, weights of classes, norms of parts of samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

VAE = (
    HEAD + "enc, dec = nn.Linear(6, 4), nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 6))\n"
    "optimizer = torch.optim.Adam([*enc.parameters(), *dec.parameters()])\n"
    "for step in range(4):\n    x = torch.randn(8, 6)\n    mu, logvar = enc(x).chunk(2, -1)\n"
    "    std = (0.5 * logvar).exp()\n{}"
    "    kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean()\n"
    "    loss = F.mse_loss(dec(z), x) + kl" + TRAIN
)  # fmt: skip
DIFFUSION = (
    HEAD + "net = nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, 2))\n"
    "optimizer = torch.optim.Adam(net.parameters())\nkept = (1 - torch.linspace(1e-4, 0.02, 50)).cumprod(0)\n"
    "root, rest = kept.sqrt(), (1 - kept).sqrt()\n"
    "for step in range(4):\n    x, t = torch.randn(16, 2), torch.randint(0, 50, (16,))\n{}"
    "    noisy = root[t].view(-1, 1) * x + rest[t].view(-1, 1) * noise\n"
    "    loss = F.mse_loss(net(torch.cat([noisy, t[:, None] / 50], 1)), noise)" + TRAIN
)  # fmt: skip
CLASSES = (
    HEAD + "net, dec = nn.Linear(6, 4), nn.Linear(4, 6)\n"
    "optimizer = torch.optim.Adam([*net.parameters(), *dec.parameters()])\n"
    "for step in range(4):\n    x = torch.randn(8, 6)\n    scores = net(x)\n{}"
    "    loss = F.mse_loss(dec(z), x)" + TRAIN
)  # fmt: skip
QUANTILE = (
    HEAD + "model, tau = nn.Linear(3, 1), 0.9\noptimizer = torch.optim.Adam(model.parameters())\n"
    "for step in range(4):\n    x, y = torch.randn(16, 3), torch.randn(16, 1)\n{}" + TRAIN
)  # fmt: skip
MIXTURE = (
    HEAD + "model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 9))\n"
    "optimizer = torch.optim.Adam(model.parameters())\n"
    "for step in range(4):\n    x, y = torch.randn(16, 2), torch.randn(16, 1)\n"
    "    w, mean, logstd = model(x).chunk(3, -1)\n{}" + TRAIN
)  # fmt: skip
GAUSSIANS = (
    HEAD + "w, mean, logstd = (nn.Parameter(torch.randn(*s)) for s in ((3,), (3, 2), (3, 2)))\n"
    "optimizer, data = torch.optim.Adam([w, mean, logstd]), torch.randn(20, 1, 2)\n"
    "for step in range(4):\n    each = torch.distributions.Normal(mean, logstd.exp()).log_prob(data).sum(-1)\n{}"
    + TRAIN
)  # fmt: skip
TRIPLETS = (
    HEAD + "model = nn.Linear(8, 4)\noptimizer = torch.optim.Adam(model.parameters())\n"
    "for step in range(4):\n    z, y = model(torch.randn(12, 8)), torch.arange(12) % 3\n"
    "    d, same = torch.cdist(z, z), (y[:, None] == y).float()\n    far = (d * same).max(1).values\n{}"
    "    loss = F.relu(far - near + 0.5).mean()" + TRAIN
)  # fmt: skip
MIXED = (
    HEAD + "net, ce = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)), nn.CrossEntropyLoss()\n"
    "optimizer = torch.optim.Adam(net.parameters())\n"
    "for step in range(4):\n    x, y = torch.randn(8, 4, 4), torch.arange(8) % 3\n"
    "    order, lam = torch.randperm(8), 0.9 - 0.2 * step\n{}" + TRAIN
)  # fmt: skip
CRITIC = (
    HEAD + "critic = nn.Sequential(nn.Flatten(), nn.Linear(48, 8), nn.Softplus(), nn.Linear(8, 1))\n"
    "optimizer = torch.optim.Adam(critic.parameters())\n"
    "for step in range(4):\n    x = torch.randn(6, 3, 4, 4, requires_grad=True)\n    out = critic(x)\n"
    "    (g,) = torch.autograd.grad(out, x, torch.ones_like(out), create_graph=True)\n{}"
    "    loss = critic(torch.randn(6, 3, 4, 4)).mean() - critic(torch.randn(6, 3, 4, 4)).mean() + gp" + TRAIN
)  # fmt: skip
RETURNS = (
    HEAD + "policy = nn.Linear(4, 2)\noptimizer = torch.optim.Adam(policy.parameters())\n{}"
    "for episode in range(4):\n    dist = torch.distributions.Categorical(logits=policy(torch.randn(6, 4)))\n"
    "    action = dist.sample()\n    rewards = action.tolist()\n{}"
    "    loss = -(dist.log_prob(action) * G).mean()" + TRAIN
)  # fmt: skip
COUNTED = (
    HEAD + "x, y = torch.randn(60, 4), (torch.arange(60) > 44).long() + (torch.arange(60) > 54)\n"
    "model, counts = nn.Linear(4, 3), y.bincount(minlength=3).float()\n{}"
    "optimizer = torch.optim.Adam(model.parameters())\n"
    "for step in range(4):\n    i = torch.randint(0, 60, (20,))\n    loss = error(model(x[i]), y[i])" + TRAIN
)  # fmt: skip

FAULTS = {
    "classes weigh as much as they are frequent": (
        "rare_class_weighs_less",
        COUNTED.format("share = counts / counts.sum()  # HERE\nerror = nn.CrossEntropyLoss(weight=share)\n"),
    ),
    "the same by the largest, in a function": (
        "rare_class_weighs_less",
        COUNTED.format(
            "share = counts.div(counts.max())  # HERE\n"
            "def error(out, classes):\n    return F.nll_loss(out.log_softmax(1), classes, share)\n"
        ),
    ),
    "a sample of a VAE is drawn from 0 to 1": (
        "uniform_noise", VAE.format("    z = mu + torch.rand_like(std) * std  # HERE\n"),
    ),
    "the same in old words": (
        "uniform_noise",
        VAE.format("    eps = torch.empty_like(std).uniform_()  # HERE\n    z = eps.mul(std).add_(mu)\n"),
    ),
    "noise of a diffusion is drawn from 0 to 1": (
        "uniform_noise", DIFFUSION.format("    noise = torch.rand(x.shape)  # HERE\n"),
    ),
    "Gumbel noise with one logarithm": (
        "gumbel_noise",
        CLASSES.format(
            "    noise = -torch.log(torch.rand(8, 4).clamp(min=1e-9))  # HERE\n"
            "    z = F.softmax((scores + noise) / 0.5, 1)\n"
        ),
    ),
    "Gumbel noise turned around": (
        "gumbel_noise",
        CLASSES.format(
            "    u = torch.rand_like(scores)\n"
            "    z = (scores + (-(u + 1e-9).log() + 1e-9).log()).softmax(-1)  # HERE\n"
        ),
    ),
    "Gumbel softmax of probabilities": (
        "normalized_twice",
        CLASSES.format("    p = scores.softmax(-1)  # HERE\n    z = F.gumbel_softmax(p, tau=0.7, hard=True)\n"),
    ),
    "a pinball loss of predictions minus targets": (
        "other_quantile",
        QUANTILE.format("    e = model(x) - y  # HERE\n    loss = torch.max(tau * e, (tau - 1) * e).mean()"),
    ),
    "the same with a condition": (
        "other_quantile",
        QUANTILE.format(
            "    e = model(x).sub(y)  # HERE\n    loss = torch.where(e >= 0, e * tau, e * (tau - 1)).mean()"
        ),
    ),
    "the same with a step": (
        "other_quantile",
        QUANTILE.format("    e = model(x) - y  # HERE\n    loss = ((tau - (e.detach() < 0).float()) * e).mean()"),
    ),
    "a pinball loss of the negative part": (
        "other_quantile",
        QUANTILE.format("    e = torch.sub(model(x), y)  # HERE\n    loss = torch.add(e.neg().relu(), e * tau).mean()"),
    ),
    "a pinball loss of the positive part, of several levels": (
        "other_quantile",
        QUANTILE.format(
            "    e = y - model(x)  # HERE\n    levels = torch.tensor([[0.1, 0.9]])\n"
            "    loss = (e.clamp(min=0) - levels * e).mean()"
        ).replace("nn.Linear(4, 1)", "nn.Linear(4, 2)"),
    ),
    "a pinball loss of two parts": (
        "other_quantile",
        QUANTILE.format(
            "    e = model(x) - y  # HERE\n    q = torch.tensor(0.9)\n"
            "    loss = (q * e.clamp_min(0) + (1 - q) * torch.relu(-e)).mean()"
        ),
    ),
    "half of the size, and a tilt": (
        "other_quantile",
        QUANTILE.format(
            "    e = torch.sub(model(x), y)  # HERE\n    loss = torch.add(e.abs() / 2, e, alpha=tau - 0.5).mean()"
        ),
    ),
    "the size and twice the tilt": (
        "other_quantile",
        QUANTILE.format("    e = model(x) - y  # HERE\n    loss = (e.abs() + (2 * tau - 1) * e).mean() / 2"),
    ),
    "the size less the turned tilt, of several levels": (
        "other_quantile",
        QUANTILE.format(
            "    e = model(x) - y  # HERE\n    levels = 0.5 - torch.tensor([[0.1, 0.9]])\n"
            "    loss = (0.5 * e.abs() - levels * e).mean()"
        ).replace("nn.Linear(4, 1)", "nn.Linear(4, 2)"),
    ),
    "a pinball loss of the negative part, with alpha": (
        "other_quantile",
        QUANTILE.format("    e = model(x) - y  # HERE\n    loss = torch.add(F.relu(-e), e, alpha=tau).mean()"),
    ),
    "the larger one of a stack": (
        "other_quantile",
        QUANTILE.format(
            "    e = model(x) - y  # HERE\n    loss = torch.stack([tau * e, (tau - 1) * e]).amax(0).mean()"
        ),
    ),
    "an expectile of values minus targets": (
        "other_quantile",
        QUANTILE.format(
            "    e = model(x) - y  # HERE\n    weight = torch.where(e > 0, tau, 1 - tau)\n"
            "    loss = (weight * e**2).mean()"
        ),
    ),
    "weights of a mixture as they are": (
        "weights_not_normalized",
        MIXTURE.format(
            "    each = torch.distributions.Normal(mean, logstd.exp()).log_prob(y)\n"
            "    loss = -torch.logsumexp(w + each, -1).mean()  # HERE"
        ),
    ),
    "the same by hand": (
        "weights_not_normalized",
        MIXTURE.format(
            "    each = -0.5 * ((y - mean) / logstd.exp()) ** 2 - logstd\n"
            "    both = each + w  # HERE\n    loss = both.exp().sum(-1).log().mean().neg()"
        ),
    ),
    "probabilities without their logarithm": (
        "weights_not_normalized",
        MIXTURE.format(
            "    p = F.softmax(w, -1)  # HERE\n"
            "    each = -0.5 * ((y - mean) / logstd.exp()) ** 2 - logstd\n"
            "    loss = -torch.logsumexp(p + each, -1).mean()"
        ),
    ),
    "components of a mixture that are added up over the samples": (
        "weights_not_normalized",
        MIXTURE.format(
            "    each = -0.5 * ((y - mean) / logstd.exp()) ** 2 - logstd\n"
            "    loss = -torch.logsumexp(w.log_softmax(-1) + each, dim=0).mean()  # HERE"
        ),
    ),
    "the same with exponentials": (
        "weights_not_normalized",
        MIXTURE.format(
            "    each = torch.distributions.Normal(mean, logstd.exp()).log_prob(y)\n"
            "    loss = -(F.softmax(w, 1).log() + each).exp().sum(0).log().mean()  # HERE"
        ),
    ),
    "weights of a mixture that are a parameter": (
        "weights_not_normalized", GAUSSIANS.format("    loss = -torch.logsumexp(each + w, 1).mean()  # HERE"),
    ),
    "the nearest negative is a hidden one": (
        "least_of_hidden", TRIPLETS.format("    near = (d * (1 - same)).min(dim=1)[0]  # HERE\n"),
    ),
    "the same with the two nearest": (
        "least_of_hidden",
        TRIPLETS.format("    hidden = d * (y[:, None] != y)\n"
                        "    near = hidden.topk(2, largest=False).values.mean(1)  # HERE\n"),
    ),
    "the same as the largest similarity": (
        "least_of_hidden", TRIPLETS.format("    near = -(-d * (1 - same)).amax(1)  # HERE\n"),
    ),
    "labels of mixed samples are swapped": (
        "labels_mixed_otherwise",
        MIXED.format(
            "    out = net(lam * x + (1 - lam) * x[order])\n"
            "    loss = (1 - lam) * ce(out, y) + lam * ce(out, y[order])  # HERE"
        ),
    ),
    "soft labels of mixed samples are swapped": (
        "labels_mixed_otherwise",
        MIXED.format(
            "    one, lam = F.one_hot(y, 3).float(), torch.tensor(lam)\n"
            "    soft = one * (1 - lam) + one.index_select(0, order) * lam  # HERE\n"
            "    loss = ce(net(x * lam + x.index_select(0, order) * (1 - lam)), soft)"
        ),
    ),
    "labels of samples that lerp mixes are swapped": (
        "labels_mixed_otherwise",
        MIXED.format(
            "    both, lam = torch.stack((y, y[order])), torch.tensor(lam)\n"
            "    out = net(torch.lerp(x, x[order], lam))\n"
            "    loss = torch.stack([ce(out, each) for each in both]) @ torch.stack((lam, 1 - lam))  # HERE"
        ),
    ),
    "losses of samples that lerp mixes are swapped": (
        "labels_mixed_otherwise",
        MIXED.format(
            "    out = net(x.mul(lam).add(x[order], alpha=1 - lam))\n"
            "    loss = torch.lerp(ce(out, y), ce(out, y[order]), lam)  # HERE"
        ),
    ),
    "labels of samples that are moved to others are swapped": (
        "labels_mixed_otherwise",
        MIXED.format(
            "    out = net(x + (1 - lam) * (x[order] - x))\n"
            "    losses = torch.stack((ce(out, y), ce(out, y[order])))\n"
            "    loss = (losses * torch.tensor([1 - lam, lam])).sum()  # HERE"
        ),
    ),
    "the share that was pasted counts for the own label": (
        "labels_mixed_otherwise",
        MIXED.format(
            "    x[:, :2, :step % 2 + 1] = x[order, :2, :step % 2 + 1]\n    lam = 2 * (step % 2 + 1) / 16\n"
            "    out = net(x)\n    loss = ce(out, y) * lam + ce(out, y[order]) * (1 - lam)  # HERE"
        ),
    ),
    "a norm for each pixel": (
        "one_norm_for_all_samples", CRITIC.format("    gp = ((g.norm(2, dim=1) - 1) ** 2).mean()  # HERE\n"),
    ),
    "a norm for each line of a picture": (
        "one_norm_for_all_samples",
        CRITIC.format("    gp = (torch.linalg.norm(g, dim=-1) - 1).square().mean()  # HERE\n"),
    ),
    "returns that begin with the last one": (
        "returns_from_before",
        RETURNS.format("", "    sums, R = [], 0.0\n    for r in reversed(rewards):\n        R = r + 0.9 * R\n"
                           "        sums.append(R)  # HERE\n    G = torch.tensor(sums)\n"),
    ),
    "the same in a function": (
        "returns_from_before",
        RETURNS.format("def discounted(rewards):\n    out, R = [], 0.0\n"
                       "    for t in range(len(rewards) - 1, -1, -1):\n        R = rewards[t] + 0.9 * R\n"
                       "        out.append(R)  # HERE\n    return torch.tensor(out)\n",
                       "    G = discounted(rewards)\n"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_the_mistake_is_the_first_alarm(name: str, tmp_path: Path) -> None:
    cause, script = FAULTS[name]
    assert_first_alarm(script, cause, tmp_path)


HEALTHY = {
    "classes weigh less if they are frequent": COUNTED.format(
        "error = nn.CrossEntropyLoss(counts.sum() / (3 * counts))\n"
    ),
    "classes weigh what their frequency leaves": COUNTED.format(
        "error = nn.CrossEntropyLoss(weight=1 - counts / counts.sum())\n"
    ),
    "classes weigh the reciprocals of their frequencies": COUNTED.format(
        "share = counts / len(y)\nshare = 1 / share\nerror = nn.CrossEntropyLoss(weight=share / share.sum())\n"
    ),
    "a sample of a VAE": VAE.format("    z = mu + torch.randn_like(std) * std\n"),
    "uniform noise that has been scaled to a deviation of 1": VAE.format(
        "    z = mu + std * ((torch.rand_like(std) - 0.5) * 12**0.5)\n"
    ),
    "uniform noise on the data of a VAE": VAE.format(
        "    x = x + torch.rand_like(x)\n    z = mu + std * torch.randn_like(mu)\n"
    ),
    "noise of a diffusion": DIFFUSION.format("    noise = torch.randn_like(x)\n"),
    "Gumbel noise": CLASSES.format(
        "    u = torch.rand_like(scores) + 1e-9\n"
        "    z = F.softmax((scores - torch.log(1e-9 - torch.log(u))) / 0.5, 1)\n"
    ),
    "Gumbel noise of exponential draws": CLASSES.format(
        "    z = F.softmax(scores - torch.empty_like(scores).exponential_().log(), 1)\n"
    ),
    "logistic noise": CLASSES.format(
        "    u = torch.rand_like(scores)\n    z = F.softmax(scores + u.log() - (1 - u).log(), 1)\n"
    ),
    "Gumbel softmax of logarithms": CLASSES.format("    z = F.gumbel_softmax(scores.log_softmax(-1))\n"),
    "a pinball loss": QUANTILE.format("    e = y - model(x)\n    loss = torch.max(tau * e, (tau - 1) * e).mean()"),
    "half of the size, and a tilt": QUANTILE.format(
        "    e = y - model(x)\n    loss = (e.abs() / 2 + (tau - 0.5) * e).mean()"
    ),
    "a tilt from the other side": QUANTILE.format(
        "    e = model(x) - y\n    loss = (e.abs() / 2 + (0.5 - tau) * e).mean()"
    ),
    "a tilt that is taken away": QUANTILE.format(
        "    e = model(x) - y\n    loss = torch.sub(e.abs() / 2, e, alpha=tau - 0.5).mean()"
    ),
    "the larger one of a stack": QUANTILE.format(
        "    e = y - model(x)\n    loss = torch.stack([tau * e, (tau - 1) * e]).max(0).values.mean()"
    ),
    "the negative part with alpha": QUANTILE.format(
        "    e = y - model(x)\n    loss = torch.add(F.relu(-e), e, alpha=tau).mean()"
    ),
    "a pinball loss that is written from the other side": QUANTILE.format(
        "    e = model(x) - y\n    loss = torch.max((1 - tau) * e, -tau * e).mean()"
    ),
    "costs of too much and too little": QUANTILE.format(
        "    over, under = 1.0, 5.0\n    e = model(x) - y\n    loss = torch.max(over * e, -under * e).mean()"
    ),
    "an expectile": QUANTILE.format(
        "    e = y - model(x)\n    loss = (torch.where(e > 0, tau, 1 - tau) * e**2).mean()"
    ),
    "an expectile that is written from the other side": QUANTILE.format(
        "    e = model(x) - y\n    loss = (torch.where(e < 0, tau, 1 - tau) * e**2).mean()"
    ),
    "a mixture": MIXTURE.format(
        "    each = torch.distributions.Normal(mean, logstd.exp()).log_prob(y)\n"
        "    loss = -torch.logsumexp(w.log_softmax(-1) + each, -1).mean()"
    ),
    "a mixture whose precision is added": MIXTURE.format(
        "    each = -0.5 * ((y - mean) * logstd.exp()) ** 2 + logstd + w.log_softmax(-1)\n"
        "    loss = -torch.logsumexp(each, -1).mean()"
    ),
    "a mixture that is normalized afterwards": GAUSSIANS.format(
        "    loss = (torch.logsumexp(w, 0) - torch.logsumexp(each + w, 1)).mean()"
    ),
    "the nearest negative behind a large number": TRIPLETS.format("    near = (d + 1e6 * same).min(1).values\n"),
    "the nearest positive of each, itself": TRIPLETS.format(
        "    near = d.masked_fill(same > 0, 1e9).min(1)[0] + d.min(1)[0]\n"
    ),
    "the mean of those that a mask lets through": TRIPLETS.format(
        "    near = (d * (1 - same)).sum(1) / (1 - same).sum(1)\n"
    ),
    "mixed samples": MIXED.format(
        "    out = net(lam * x + (1 - lam) * x[order])\n    loss = lam * ce(out, y) + (1 - lam) * ce(out, y[order])"
    ),
    "samples that lerp mixes": MIXED.format(
        "    both, lam = torch.stack((y, y[order])), torch.tensor(lam)\n"
        "    out = net(torch.lerp(x, x[order], 1 - lam))\n"
        "    loss = torch.stack([ce(out, each) for each in both]) @ torch.stack((lam, 1 - lam))"
    ),
    "samples that are moved to others": MIXED.format(
        "    out = net(x + (1 - lam) * (x[order] - x))\n    loss = torch.lerp(ce(out, y), ce(out, y[order]), 1 - lam)"
    ),
    "samples that are mixed the other way round, and their labels too": MIXED.format(
        "    out = net((1 - lam) * x + lam * x[order])\n    loss = lam * ce(out, y[order]) + (1 - lam) * ce(out, y)"
    ),
    "pasted parts": MIXED.format(
        "    x[:, :2, :2] = x[order, :2, :2]\n    out = net(x)\n"
        "    loss = ce(out, y) * 0.75 + ce(out, y[order]) * 0.25"
    ),
    "a norm for each sample": CRITIC.format(
        "    gp = ((g.flatten(1).norm(2, dim=1) - 1) ** 2).mean() + ((g.norm(dim=(1, 2, 3)) - 1) ** 2).mean()\n"
    ),
    "slopes of 1 at each of several points": HEAD
    + "net = nn.Sequential(nn.Linear(3, 16), nn.Softplus(), nn.Linear(16, 1))\n"
    "optimizer = torch.optim.Adam(net.parameters())\n"
    "for step in range(4):\n    x = torch.randn(2, 9, 3, requires_grad=True)\n"
    "    (g,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)\n"
    "    loss = ((g.norm(dim=-1) - 1) ** 2).mean() + net(x).square().mean()" + TRAIN,
    "returns that are turned around": RETURNS.format(
        "", "    sums, R = [], 0.0\n    for r in reversed(rewards):\n        R = r + 0.9 * R\n        sums.append(R)\n"
            "    G = torch.tensor(sums).flip(0)\n"),
    "returns that are read from the end": RETURNS.format(
        "", "    sums, R = [], 0.0\n    for r in rewards[::-1]:\n        R = r + 0.9 * R\n        sums.append(R)\n"
            "    G = torch.tensor([sums[len(sums) - 1 - i] for i in range(6)])\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_what_looks_like_it_and_is_right_raises_no_alarm(name: str, tmp_path: Path) -> None:
    assert not alarms(HEALTHY[name], tmp_path)
