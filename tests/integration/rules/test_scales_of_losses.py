"""Scales whose logarithm has the wrong sign in a loss, and noise that is multiplied with its variance."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rules.checked_scripts import HEAD, TRAIN, alarms, assert_first_alarm

REWARDED = "scale_rewarded"
VARIANCE = "noise_scaled_by_variance"


def causes(script: str, folder: Path) -> set[str]:
    return {finding.cause for finding in alarms(script, folder)}


LIKELIHOOD = """
from torch.distributions import Normal, kl_divergence
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
inputs = torch.randn(32, 3)
y = inputs.sum(1, keepdim=True) + torch.randn(32, 1)
for step in range(3):
    out = net(inputs)
    m, s = out.chunk(2, dim=1)
"""
UNBOUNDED = (
    "    loss = (torch.exp(-out[:, 1]) * (y[:, 0] - out[:, 0]) ** 2 - out[:, 1]).mean()  # HERE",
    "    sigma = F.softplus(s) + 1e-3\n    loss = ((y - m) ** 2 / (2 * sigma**2) - torch.log(sigma)).mean()  # HERE",
    "    likelihood = -0.5 * ((y - m) / s.exp()).pow(2) + s  # HERE\n    loss = -likelihood.mean()",
    "    loss = (0.5 * s.exp() * (y - m) ** 2 + 0.5 * s).mean()  # HERE",
    "    loss = ((y - m).abs() * torch.exp(-s)).mean() - s.mean()  # HERE",
    "    loss = 0.5 * (m.pow(2) + s.exp() - 1 + s).sum(1).mean()  # HERE",
    # The scale is one over the width: what is multiplied with it.
    "    loss = torch.addcmul(s, s.exp(), (y - m).abs())  # HERE\n    loss = loss.mean()",
    "    terms = torch.addcmul(-0.5 * s, (y - m).square(), (-s).exp(), value=0.5)  # HERE\n    loss = terms.mean()",
    "    sigma = F.softplus(s) + 1e-3\n    terms = torch.addcdiv(-sigma.log(), (y - m).abs(), sigma)  # HERE\n"
    "    loss = terms.mean()",
    "    loss = torch.lerp(s, (y - m).square() * s.exp(), 0.5).mean()  # HERE",
)
BOUNDED = (
    "    loss = (torch.exp(-out[:, 1]) * (y[:, 0] - out[:, 0]) ** 2 + out[:, 1]).mean()",
    "    sigma = F.softplus(s) + 1e-3\n    loss = ((y - m) ** 2 / (2 * sigma**2) + torch.log(sigma)).mean()",
    "    likelihood = -0.5 * ((y - m) / s.exp()).pow(2) - s\n    loss = -likelihood.mean()",
    "    loss = -Normal(m, s.exp()).log_prob(y).mean()",
    "    loss = (m - y).pow(2).mean() + kl_divergence(Normal(m, s.exp()), Normal(0.0, 1.0)).mean()",
    "    chosen = Normal(m, s.exp())\n    a = chosen.sample()\n    weights = torch.rand(32, 1)\n"
    "    loss = -(chosen.log_prob(a) * weights).mean() - 0.01 * chosen.entropy().mean()",
    "    chosen = Normal(m, s.exp())\n    loss = (chosen.rsample() - y).pow(2).mean() - 0.01 * chosen.entropy().mean()",
    "    loss = (s.exp() * y.abs() - s).mean()",
    "    loss = torch.addcmul(-s, s.exp(), (y - m).abs()).mean()",
    "    loss = torch.addcmul(0.5 * s, (y - m).square(), (-s).exp(), value=0.5).mean()",
    "    sigma = F.softplus(s) + 1e-3\n    loss = torch.addcdiv(sigma.log(), (y - m).abs(), sigma).mean()",
    "    loss = torch.addcmul((y - m).square(), s.exp(), s, value=0.1).mean()",
)


@pytest.mark.parametrize("loss", UNBOUNDED)
def test_a_likelihood_that_rewards_its_scale_is_told(loss: str, tmp_path: Path) -> None:
    assert_first_alarm(HEAD + LIKELIHOOD + loss + TRAIN, REWARDED, tmp_path)


@pytest.mark.parametrize("loss", BOUNDED)
def test_a_likelihood_that_holds_its_scale_is_right_and_so_are_entropies(loss: str, tmp_path: Path) -> None:
    assert REWARDED not in causes(HEAD + LIKELIHOOD + loss + TRAIN, tmp_path)


TASKS = """
net, s = nn.Linear(3, 2), nn.Parameter(torch.zeros(2))
optimizer = torch.optim.SGD([*net.parameters(), s], lr=0.01)
inputs = torch.randn(32, 3)
for step in range(3):
    errors = (net(inputs) - inputs[:, :2]).square().mean(0)
"""
WEIGHED = (
    "    loss = (torch.exp(-s) * errors {sign} s).sum(){mark}",
    "    loss = 0\n    for i in range(2):\n        loss = loss + torch.exp(-s[i]) * errors[i] {sign} s[i]{mark}",
    "    held = s.sum()\n    loss = sum(torch.exp(-s[i]) * errors[i] for i in range(2)) {sign} held{mark}",
    "    sigma = 1 + s\n    loss = (errors / (2 * sigma**2)).sum() {sign} torch.log(sigma).sum(){mark}",
)


@pytest.mark.parametrize("loss", WEIGHED)
def test_weights_of_tasks_by_uncertainty_need_the_right_sign(loss: str, tmp_path: Path) -> None:
    script = HEAD + TASKS + loss.format(sign="-", mark="  # HERE") + TRAIN
    assert_first_alarm(script, REWARDED, tmp_path)


@pytest.mark.parametrize("loss", WEIGHED)
def test_weights_of_tasks_that_cost_their_logarithm_are_right(loss: str, tmp_path: Path) -> None:
    assert REWARDED not in causes(HEAD + TASKS + loss.format(sign="+", mark="") + TRAIN, tmp_path)


FLOW = """
class Coupling(nn.Module):
    def __init__(self, is_first):
        super().__init__()
        self.is_first, self.net = is_first, nn.Linear(1, 2)
    def forward(self, x):
        a, b = x.chunk(2, dim=1) if self.is_first else x.flip(1).chunk(2, dim=1)
        t, s = self.net(a).chunk(2, dim=1)
{layer}
        return torch.cat([a, b], dim=1), volume
layers = nn.ModuleList([Coupling(True), Coupling(False), Coupling(True)])
optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)
prior = torch.distributions.{prior}
for step in range(3):
    z, total = torch.randn(32, 2) + 1, torch.zeros(32)
    for layer in layers:
        z, volume = layer(z)
        total = total + volume
    loss = {loss}
"""
NORMAL, JOINT = "Normal(0.0, 1.0)", "MultivariateNormal(torch.zeros(2), torch.eye(2))"
MULTIPLIED = "        s = s.tanh()\n        b, volume = b * s.exp() + t, s.sum(1)"
DIVIDED = "        s = torch.tanh(s)\n        b = (b - t) * torch.exp(-s)\n        volume = {sign}s.sum(1)"
GATED = "        s = torch.sigmoid(s + 2)\n        b = s * (b + t)\n        volume = torch.log(s).sum(1)"
WRONG_FLOWS = (
    (MULTIPLIED, NORMAL, "-(prior.log_prob(z).sum(1) - total).mean()  # HERE"),
    (MULTIPLIED, NORMAL, "0.5 * z.square().sum(1).mean() + total.mean()  # HERE"),
    (DIVIDED.format(sign="") + "  # HERE", JOINT, "-(prior.log_prob(z) + total).mean()"),
    (GATED, JOINT, "-(prior.log_prob(z) - total).mean()  # HERE"),
)
RIGHT_FLOWS = (
    (MULTIPLIED, NORMAL, "-(prior.log_prob(z).sum(1) + total).mean()"),
    (DIVIDED.format(sign="-"), JOINT, "-(prior.log_prob(z) + total).mean()"),
    (DIVIDED.format(sign=""), NORMAL, "(0.5 * z**2).sum(1).mean() + total.mean()"),
    (GATED, JOINT, "-(prior.log_prob(z) + total).mean()"),
)


@pytest.mark.parametrize(("layer", "prior", "loss"), WRONG_FLOWS)
def test_a_flow_that_is_rewarded_for_shrinking_is_told(layer: str, prior: str, loss: str, tmp_path: Path) -> None:
    script = FLOW.format(layer=layer, prior=prior, loss=loss)
    assert_first_alarm(HEAD + script + TRAIN, REWARDED, tmp_path)


@pytest.mark.parametrize(("layer", "prior", "loss"), RIGHT_FLOWS)
def test_a_flow_whose_volume_has_the_right_sign_is_right(layer: str, prior: str, loss: str, tmp_path: Path) -> None:
    assert REWARDED not in causes(HEAD + FLOW.format(layer=layer, prior=prior, loss=loss) + TRAIN, tmp_path)


AUTOENCODER = """
from torch.distributions import Normal, kl_divergence
encoder, decoder = nn.Linear(6, 4), nn.Linear(2, 6)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.01)
def drawn(m, v):
{sample}
for step in range(3):
    x = torch.randn(16, 6)
    m, v = encoder(x).chunk(2, dim=1)
    loss = F.mse_loss(decoder(drawn(m, v)), x, reduction="sum") / 16 + {divergence}.sum(1).mean()
"""
OF_LOGVAR = (
    "-0.5 * (1 + v - m.pow(2) - v.exp())",
    "kl_divergence(Normal(m, (0.5 * v).exp()), Normal(torch.zeros_like(m), torch.ones_like(m)))",
)
OF_LOGSTD = "-0.5 * (1 + 2 * v - m**2 - torch.exp(2 * v))"
WRONG_SCALES = (
    ("    std = torch.exp(v)  # HERE\n    return m + std * torch.randn_like(std)", OF_LOGVAR[0]),
    ("    return Normal(m, v.exp()).rsample()  # HERE", OF_LOGVAR[0]),
    ("    return torch.randn(m.shape).mul(v.exp()).add_(m)  # HERE", OF_LOGVAR[1]),
    ("    return m + torch.exp(0.5 * v) * torch.randn_like(m)  # HERE", OF_LOGSTD),
)
RIGHT_SCALES = (
    ("    return torch.randn_like(v).mul(v.mul(0.5).exp_()).add_(m)", OF_LOGVAR[0]),
    ("    return Normal(m, v.exp().sqrt()).rsample()", OF_LOGVAR[0]),
    ("    return m + (v / 2).exp() * torch.randn_like(m)", OF_LOGVAR[1]),
    ("    return m + v.exp() * torch.randn_like(m)", OF_LOGSTD),
    ("    return m + v.exp() * torch.rand(m.shape)", OF_LOGVAR[0]),
)


@pytest.mark.parametrize(("sample", "divergence"), WRONG_SCALES)
def test_noise_that_is_multiplied_with_another_scale_is_told(sample: str, divergence: str, tmp_path: Path) -> None:
    script = AUTOENCODER.format(sample=sample, divergence=divergence)
    assert_first_alarm(HEAD + script + TRAIN, VARIANCE, tmp_path)


@pytest.mark.parametrize(("sample", "divergence"), RIGHT_SCALES)
def test_noise_of_the_scale_that_the_divergence_measures_is_right(sample: str, divergence: str, tmp_path: Path) -> None:
    assert VARIANCE not in causes(HEAD + AUTOENCODER.format(sample=sample, divergence=divergence) + TRAIN, tmp_path)
