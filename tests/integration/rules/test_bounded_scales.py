"""Scales that a function bounds, and their logarithms in a loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

NETS = HEAD + (
    "net, other = (nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4)) for _ in range(2))\n"
    "decoder, encoder = nn.Linear(2, 6), nn.Linear(6, 4)\n"
    "modules = nn.ModuleList([net, other, decoder, encoder])\n"
)
OPTIMIZER = "optimizer = torch.optim.Adam({}.parameters(), lr=0.01)\nfor step in range(3):\n"
LAYERS = (
    NETS + "modules = modules[:2]\n" + OPTIMIZER.format("modules")
    + "    z, total = torch.randn(16, 4), 0\n    for flip, layer in enumerate(modules):\n"
    "        a, b = (z[:, 2:], z[:, :2]) if flip else (z[:, :2], z[:, 2:])\n        s, t = layer(a).split(2, 1)\n"
    "LAYER\n        z = torch.cat([z, a] if flip else [a, z], 1)\n        total = total + log_det\n"
    "    loss = 0.5 * (z**2).sum(1).mean() - total.mean()" + TRAIN
)  # fmt: skip
COUPLING = NETS + OPTIMIZER.format("net") + "    a, b = torch.randn(16, 4).chunk(2, 1)\n    s, t = net(a).chunk(2, 1)\n"
PRIOR = (
    "    prior = torch.distributions.Normal(0.0, 1.0)\n"
    "    loss = -(prior.log_prob(torch.cat([a, z], 1)).sum(1) + log_det).mean()" + TRAIN
)
FIT = NETS + OPTIMIZER.format("net") + "    y = torch.randn(16, 2)\n    mu, v = net(torch.randn(16, 2)).chunk(2, 1)\n"
VAE = (
    NETS + "modules = modules[2:]\n" + OPTIMIZER.format("modules")
    + "    x = torch.randn(16, 6)\n    mu, v = encoder(x).chunk(2, 1)\n"
)  # fmt: skip
DIVERGENCE = "    kl = -0.5 * (1 + v - mu.pow(2) - v.exp()).sum(1).mean()"
DECODED = "    loss = (decoder(z) - x).square().sum(1).mean() + kl" + TRAIN


def layers(*lines: str) -> str:
    """A flow of two layers."""
    return LAYERS.replace("LAYER", "\n".join(f"        {line}" for line in lines))


FAULTS = {
    "layers that sum up what is not bounded": layers(
        "z = b * torch.exp(1.5 * torch.tanh(s)) + t", "log_det = s.sum(dim=1)  # HERE",
    ),
    "the way from data to noise": layers(
        "scale = F.softsign(s).mul(2).exp()", "z = (b - t) / scale", "log_det = -torch.sum(s, -1)  # HERE",
    ),
    "a product that is added to the shift": layers(
        "z = torch.addcmul(t, b, torch.exp(torch.tanh(s)))", "log_det = s.sum(1)  # HERE",
    ),
    "a quotient of a whole that is added": layers(
        "z = torch.addcdiv(t, b, torch.exp(torch.tanh(s)))", "log_det = s.neg().sum(1)  # HERE",
    ),
    "a function that returns what it does not bound": NETS.replace("modules =", """
def couple(a, b):
    s, t = net(a).chunk(2, 1)
    return torch.exp(torch.tanh(s)).mul(b).add(t), s  # HERE
modules =""") + OPTIMIZER.format("net") + "    a, b = torch.randn(16, 4).chunk(2, 1)\n    z, log_det = couple(a, b)\n"
    + "    log_det = log_det.sum(1)\n" + PRIOR,
    "a logistic scale": layers("z = b * torch.sigmoid(s + 2) + t", "log_det = s.sum(1)  # HERE"),
    "a bound in the sum only": layers("z = b * torch.exp(s) + t  # HERE", "log_det = torch.tanh(s).sum(1)"),
    "a prior of torch": COUPLING
    + "    z = b * (0.6 * torch.atan(s / 2)).exp() + t\n    log_det = s.sum(1)  # HERE\n" + PRIOR,
    "a Gaussian likelihood": FIT
    + "    scale = F.softplus(v)\n    loss = (0.5 * ((y - mu) / scale).square() + v).mean()  # HERE" + TRAIN,
    "a clamp of log-variances that nothing keeps above it": FIT
    + "    v = 4 * v - 5\n    error = (y - mu) ** 2 * torch.exp(-v.clamp(-5, 5))\n"
    "    loss = (0.5 * error + 0.5 * v).mean()  # HERE" + TRAIN,
    "noise of a bounded scale": VAE
    + "    z = mu + torch.exp(0.5 * torch.tanh(v)) * torch.randn_like(mu)\n" + DIVERGENCE + "  # HERE\n" + DECODED,
    "a divergence of a bounded scale": VAE
    + "    z = mu + torch.randn_like(mu) * (v / 2).exp()  # HERE\n    v = 3 * torch.tanh(v / 3)\n"
    + DIVERGENCE + "\n" + DECODED,
}  # fmt: skip

HEALTHY = {
    "layers that bound once": layers("s = 2 * torch.tanh(s)", "z = b * torch.exp(s) + t", "log_det = s.sum(1)"),
    "the same bound twice": layers(
        "z = b * torch.exp(2 * torch.tanh(s)) + t", "log_det = (2 * torch.tanh(s)).sum(1)",
    ),
    "the logarithm of the scale": layers(
        "scale = torch.exp(2 * torch.tanh(s))", "z = b * scale + t", "log_det = scale.log().sum(1)",
    ),
    "a bounded logarithm that is added to the shift": layers(
        "s = torch.tanh(s)", "z = torch.addcmul(t, b, s.exp())", "log_det = s.sum(1)",
    ),
    "a logistic scale and its logarithm": layers(
        "z = b * torch.sigmoid(s + 2) + t", "log_det = F.logsigmoid(s + 2).sum(1)",
    ),
    "the same by softplus": layers("z = b * torch.sigmoid(s + 2) + t", "log_det = -F.softplus(-s - 2).sum(1)"),
    "the same in two parts": layers("z = b * torch.sigmoid(s) + t", "log_det = (s - F.softplus(s)).sum(1)"),
    "a clamp that changes nothing": layers("z = b * torch.exp(s.clamp(-9, 9)) + t", "log_det = s.sum(1)"),
    "a clamp above which the loss pushes nothing": FIT
    + "    v = 4 * v + 5\n    error = (y - mu) ** 2 * torch.exp(-v.clamp(max=5))\n"
    "    loss = (0.5 * error + 0.5 * v).mean()" + TRAIN,
    "a penalty of what is bounded": layers(
        "z = b * torch.exp(torch.tanh(s)) + t", "log_det = torch.tanh(s).sum(1) - 0.01 * s.square().sum(1)",
    ),
    "a normal distribution": FIT
    + "    loss = -torch.distributions.Normal(mu, torch.exp(torch.tanh(v))).log_prob(y).mean()" + TRAIN,
    "noise of the scale that the divergence takes": VAE + "    v = 3 * torch.tanh(v)\n"
    "    z = mu + torch.exp(0.5 * v) * torch.randn_like(mu)\n" + DIVERGENCE + "\n" + DECODED,
    "noise behind a clamp that changes nothing": VAE
    + "    z = mu + torch.exp(0.5 * v.clamp(-9, 9)) * torch.randn_like(mu)\n" + DIVERGENCE + "\n" + DECODED,
    "exponentials of scores that an estimate of information clamps": COUPLING
    + "    score, off = 3 * net(a) @ net(b).T, 1 - torch.eye(16)\n"
    "    others = ((score.clamp(-1, 1) - 1).exp() * off).sum() / off.sum()\n"
    "    loss = others - score.diagonal().mean() + (t - s).square().mean()" + TRAIN,
    "a hand-written SiLU beside a score": FIT
    + "    loss = (v * torch.sigmoid(v)).square().mean() - v.mean() + (mu - y).square().mean()" + TRAIN,
    "results that are squashed after a flow": COUPLING
    + "    z = b * s.exp() + t\n    log_det = s.sum(1) + (z - 2 * F.softplus(z)).sum(1)\n"
    "    loss = (torch.sigmoid(z) - 0.5).square().sum(1).mean() - log_det.mean()" + TRAIN,
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_scales_that_are_bounded_on_one_side_are_told(case: str, tmp_path: Path) -> None:
    assert_first_alarm(FAULTS[case], "scale_bounded_once", tmp_path)


@pytest.mark.parametrize("case", HEALTHY)
def test_scales_with_their_own_logarithm_are_left_alone(case: str, tmp_path: Path) -> None:
    assert "scale_bounded_once" not in [each.cause for each in alarms(HEALTHY[case], tmp_path)]
